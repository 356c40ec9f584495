"""One sweep of a GPU: everything of one cadence, read with as few calls as there can be."""

from __future__ import annotations

from collections.abc import Callable

from collector.sources.nvml.answers import Answers
from collector.sources.nvml.bindings import Needs
from collector.sources.nvml.fields import FieldBatch
from collector.sources.nvml.getters import MAKERS
from collector.sources.nvml.gpm import GpmSampler
from collector.sources.nvml.library import Handle, NvmlLibrary


class Sweep:
    """The prepared calls of one cadence."""

    def __init__(
        self,
        library: NvmlLibrary,
        handle: Handle,
        needs: Needs,
        monotonic: Callable[[], float],
    ) -> None:
        """Prepare every buffer; only GPM's are allocated by a call."""
        self._monotonic = monotonic
        self._batches = tuple(
            FieldBatch(library, handle, tuple(requests.values()))
            for requests in (needs.device_fields, needs.link_fields)
            if requests
        )
        self._getters = tuple(
            MAKERS[function](library, handle, function, tuple(attributes))
            for function, attributes in needs.getters.items()
        )
        self._gpm = GpmSampler(library, handle, tuple(needs.gpm), monotonic) if needs.gpm else None

    def read(self, answers: Answers) -> None:
        """Read everything into `answers`.

        Raises:
            GpuLostError: The GPU does not answer any more.
            NvmlUnavailableError: NVML does not.
        """
        for batch in self._batches:
            batch.read(answers)
        answers.read_at = self._monotonic()
        for getter in self._getters:
            getter(answers)
        if self._gpm is not None:
            self._gpm.read(answers)

    def close(self) -> None:
        """Give back what the driver allocated."""
        if self._gpm is not None:
            self._gpm.close()

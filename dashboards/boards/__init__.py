"""The boards themselves: one file each, which gives `BOARD`; `dashboards.catalogue` lists them."""

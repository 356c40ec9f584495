// What of @grafana/schema becomes a JSON schema: a dashboard, and the own part of each kind of panel.
// The raw types are taken: those of the package's front door are partly `any`.

import type * as dashboard from './node_modules/@grafana/schema/dist/types/raw/dashboard/x/types.gen';
import type * as bargauge from './node_modules/@grafana/schema/dist/types/raw/composable/bargauge/panelcfg/x/types.gen';
import type * as gauge from './node_modules/@grafana/schema/dist/types/raw/composable/gauge/panelcfg/x/types.gen';
import type * as heatmap from './node_modules/@grafana/schema/dist/types/raw/composable/heatmap/panelcfg/x/types.gen';
import type * as stat from './node_modules/@grafana/schema/dist/types/raw/composable/stat/panelcfg/x/types.gen';
import type * as statetimeline from './node_modules/@grafana/schema/dist/types/raw/composable/statetimeline/panelcfg/x/types.gen';
import type * as statushistory from './node_modules/@grafana/schema/dist/types/raw/composable/statushistory/panelcfg/x/types.gen';
import type * as table from './node_modules/@grafana/schema/dist/types/raw/composable/table/panelcfg/x/types.gen';
import type * as text from './node_modules/@grafana/schema/dist/types/raw/composable/text/panelcfg/x/types.gen';
import type * as timeseries from './node_modules/@grafana/schema/dist/types/raw/composable/timeseries/panelcfg/x/types.gen';
import type * as xychart from './node_modules/@grafana/schema/dist/types/raw/composable/xychart/panelcfg/x/types.gen';

/** `custom` of panels that have nothing of their own there. */
interface Nothing {}

export interface Grafana {
  dashboard: dashboard.Dashboard;
  options: {
    bargauge: bargauge.Options;
    gauge: gauge.Options;
    heatmap: heatmap.Options;
    stat: stat.Options;
    'state-timeline': statetimeline.Options;
    'status-history': statushistory.Options;
    table: table.Options;
    text: text.Options;
    timeseries: timeseries.Options;
    xychart: xychart.Options;
  };
  custom: {
    bargauge: Nothing;
    gauge: Nothing;
    heatmap: heatmap.FieldConfig;
    stat: Nothing;
    'state-timeline': statetimeline.FieldConfig;
    'status-history': statushistory.FieldConfig;
    table: table.FieldConfig;
    text: Nothing;
    timeseries: timeseries.FieldConfig;
    xychart: xychart.FieldConfig;
  };
}

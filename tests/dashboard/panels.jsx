// The panels of monitoring/dashboard.json, from Grafana's own packages: frames, units, mappings and names of series from @grafana/data, the
// panels from @grafana/ui. The state timeline is in neither: it is drawn here, after the same rules. Calls `drawn` with the panels' titles and
// how many series each shows.
import { createRoot } from 'react-dom/client';
import {
    applyFieldOverrides, applyNullInsertThreshold, createTheme, dateTime, FieldConfigOptionsRegistry, FieldType, getDisplayValueAlignmentFactors,
    getFieldDisplayName, getFieldDisplayValues, ThemeContext,
} from '@grafana/data';
import { BigValue, GlobalStyles, PanelChrome, TimeSeries, VizLegend, VizRepeater } from '@grafana/ui';
import 'uplot/dist/uPlot.min.css';
import dashboard from 'dashboard';

const { prometheus, from, to, step, width } = window.settings; // times in seconds
const column = width / 24;
const row = 38; // pixels, with the gap of 8
const gap = 8;
const theme = createTheme({ colors: { mode: 'light' } });
const range = { from: dateTime(from * 1000), to: dateTime(to * 1000) };
const timeRange = { ...range, raw: range };

// The variables, at "All".
const interpolate = (text) => text.replaceAll('$__rate_interval', `${4 * step}s`).replace(/\$\w+/g, '.*');

const legendName = (format, labels) => format.replace(/\{\{(\w+)\}\}/g, (_, label) => labels[label] ?? '');

// A frame for each series, as Grafana's Prometheus data source makes them.
async function query({ expr, instant, legendFormat, refId }) {
    const times = instant ? { time: to } : { start: from, end: to, step };
    const parameters = new URLSearchParams({ query: interpolate(expr), ...times });
    const answer = await (await fetch(`${prometheus}/api/v1/${instant ? 'query' : 'query_range'}?${parameters}`)).json();
    if (answer.status !== 'success') throw new Error(`${expr}: ${answer.error}`);
    return answer.data.result.map(({ metric, value, values = [value] }) => ({
        refId,
        length: values.length,
        fields: [
            { name: 'Time', type: FieldType.time, config: { interval: step * 1000 }, values: values.map(([time]) => time * 1000) },
            { name: 'Value', type: FieldType.number, labels: metric, config: { displayNameFromDS: legendName(legendFormat, metric) },
                values: values.map(([, number]) => Number(number)) },
        ],
    }));
}

// What Grafana's plugins set where the dashboard is silent.
const defaults = {
    stat: { color: { mode: 'thresholds' } },
    'state-timeline': { color: { mode: 'continuous-GrYlRd' } },
    timeseries: {
        color: { mode: 'palette-classic' },
        custom: {
            drawStyle: 'line', lineInterpolation: 'linear', lineWidth: 1, fillOpacity: 0, gradientMode: 'none', barAlignment: 0, barWidthFactor: 0.6,
            spanNulls: false, insertNulls: false, showPoints: 'auto', pointSize: 5, stacking: { mode: 'none', group: 'A' }, axisPlacement: 'auto',
            axisLabel: '', axisColorMode: 'text', axisBorderShow: false, axisCenteredZero: false, axisGridShow: true,
            scaleDistribution: { type: 'linear' }, hideFrom: { tooltip: false, viz: false, legend: false }, thresholdsStyle: { mode: 'off' },
        },
    },
};
const thresholds = { mode: 'absolute', steps: [{ value: -Infinity, color: 'green' }, { value: 80, color: 'red' }] };

function configOf({ type, fieldConfig }) {
    const silent = defaults[type];
    return { thresholds, ...silent, ...fieldConfig.defaults, custom: { ...silent.custom, ...fieldConfig.defaults.custom } };
}

async function load(panel) {
    const frames = (await Promise.all(panel.targets.map(query))).flat();
    for (const { fields: [, value] } of frames) Object.assign(value.config, configOf(panel));
    const fieldConfigRegistry = new FieldConfigOptionsRegistry(() => []);
    return applyFieldOverrides({
        data: frames, theme, timeZone: 'utc', replaceVariables: interpolate, fieldConfigRegistry, fieldConfig: { defaults: {}, overrides: [] },
    });
}

function Stat({ panel, frames, width, height }) {
    const { reduceOptions, orientation, ...options } = panel.options;
    const getValues = () => getFieldDisplayValues({
        fieldConfig: { defaults: configOf(panel), overrides: [] }, reduceOptions, replaceVariables: interpolate, theme, data: frames, timeZone: 'utc',
    });
    const renderValue = ({ value, ...place }) => <BigValue {...options} {...place} value={value.display} theme={theme} />;
    return <VizRepeater {...{ getValues, renderValue, width, height, orientation }} getAlignmentFactors={getDisplayValueAlignmentFactors} source={frames}
        itemSpacing={3} autoGrid />;
}

// The boxes of one row: equal neighbours are one, and what is missing ends one.
function boxesOf(frame) {
    const [{ values: times }, { values, display }] = applyNullInsertThreshold({ frame, refFieldPseudoMin: from * 1000, refFieldPseudoMax: to * 1000 }).fields;
    const starts = values.flatMap((value, i) => (i === 0 || value !== values[i - 1] ? [i] : []));
    return starts.map((start, i) => ({ value: values[start], from: times[start], to: times[starts[i + 1]] ?? to * 1000, ...display(values[start]) }))
        .filter(({ value }) => value != null);
}

function Timeline({ panel, frames, width, height }) {
    const names = frames.map((frame) => getFieldDisplayName(frame.fields[1], frame));
    const left = 20 + 6.6 * Math.max(...names.map((name) => name.length)), right = 20, bottom = 24, legend = 30;
    const x = (time) => left + ((time / 1000 - from) / (to - from)) * (width - left - right);
    const pitch = (height - legend - bottom) / frames.length;
    const thickness = pitch * (frames.length > 1 ? panel.options.rowHeight : 1);
    const ticks = Array.from({ length: 7 }, (_, i) => (from + ((to - from) * i) / 6) * 1000);
    const levels = Object.values(panel.fieldConfig.defaults.mappings[0].options);
    return <>
        <svg width={width} height={height - legend} fontFamily={theme.typography.fontFamily} fontSize="12" fill={theme.colors.text.primary}>
            {frames.map((frame, i) => <g key={i} transform={`translate(0 ${pitch * i})`}>
                <text x={left - 8} y={pitch / 2 + 4} textAnchor="end">{names[i]}</text>
                {boxesOf(frame).map((box) => <g key={box.from}>
                    <rect x={x(box.from)} y={(pitch - thickness) / 2} width={Math.max(1, x(box.to) - x(box.from))} height={thickness} fill={box.color} fillOpacity="0.7" />
                    {x(box.to) - x(box.from) > 8 * box.text.length && <text x={x(box.from) + 2} y={pitch / 2 + 4}>{box.text}</text>}
                </g>)}
            </g>)}
            {ticks.map((time) => <text key={time} x={x(time)} y={height - legend - 6} textAnchor="middle">{new Date(time).toISOString().slice(11, 16)}</text>)}
        </svg>
        <VizLegend placement="bottom" displayMode="list" readonly
            items={levels.map(({ text, color }) => ({ label: text, color: theme.visualization.getColorByName(color), yAxis: 1 }))} />
    </>;
}

const Series = ({ panel: { options }, frames, width, height }) =>
    <TimeSeries {...{ frames, timeRange, width, height, options }} legend={{ calcs: [], ...options.legend }} structureRev={1} timeZone="utc" />;

const kinds = { stat: Stat, 'state-timeline': Timeline, timeseries: Series };

const Empty = ({ panel, width, height }) =>
    <div style={{ width, height, display: 'flex', alignItems: 'center', justifyContent: 'center' }}>{panel.fieldConfig.defaults.noValue ?? 'No data'}</div>;

function Panel({ panel, frames }) {
    const { x, y, w, h } = panel.gridPos;
    const Content = frames.length > 0 ? kinds[panel.type] : Empty;
    const place = { width: w * column - gap, height: h * row - gap };
    return <div style={{ position: 'absolute', left: x * column, top: y * row, ...place }}>
        <PanelChrome {...place} title={panel.title} description={panel.description} padding={panel.type === 'stat' ? 'none' : 'md'}>
            {(width, height) => <Content {...{ panel, frames, width, height }} />}
        </PanelChrome>
    </div>;
}

const panels = await Promise.all(dashboard.panels.map(async (panel) => ({ panel, frames: await load(panel) })));
const board = document.body.appendChild(document.createElement('div'));
board.style = `position: relative; width: ${width - gap}px; height: ${Math.max(...dashboard.panels.map(({ gridPos: { y, h } }) => y + h)) * row - gap}px`;
createRoot(board).render(<ThemeContext.Provider value={theme}>
    <GlobalStyles />
    {panels.map((each) => <Panel key={each.panel.id} {...each} />)}
</ThemeContext.Provider>);
window.drawn(panels.map(({ panel: { title }, frames }) => ({ title, series: frames.length })));

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { Table } from '../ui.tsx';

interface Series {
  readonly name: string;
  readonly values: readonly (number | null)[];
}

const height = 220;
const daySeconds = 86_400;
/** Lines are told apart by their strokes, too, not by colour alone. */
const dashes = [[], [8, 4], [2, 3]];
const axisDay = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });

/**
 * Lines over time, with the figures below the pointer, and all of them as a table.
 * @param props.times where the points are, in epoch milliseconds
 * @param props.steps the distances that lines of the grid may have
 */
export function Chart(props: {
  readonly title: string;
  readonly times: readonly number[];
  readonly timeName: (ms: number) => string;
  readonly series: readonly Series[];
  readonly format: (value: number) => string;
  readonly steps: readonly number[];
  /** Room for the numbers beside it, in pixels. */
  readonly axisWidth: number;
}) {
  const { title, times, series, format, steps, axisWidth } = props;
  const box = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState<number | null>(null);
  const scheme = useColorScheme();
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const styles = getComputedStyle(document.documentElement);
    const colour = (name: string): string => styles.getPropertyValue(name).trim();
    const axis = { stroke: colour('--muted'), grid: { stroke: colour('--border'), width: 1 }, ticks: { show: false } };
    const plot = new uPlot(
      {
        width: element.clientWidth,
        height,
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false } },
        scales: {
          y: { range: { min: { pad: 0, soft: 0, mode: 1 }, max: { pad: 0.1, soft: steps[0] ?? 1, mode: 1 } } },
        },
        axes: [
          {
            ...axis,
            space: 70,
            size: 32,
            incrs: [1, 2, 7, 14, 28].map((days) => days * daySeconds),
            values: (_, splits) => splits.map((seconds) => axisDay.format(seconds * 1_000)),
          },
          { ...axis, size: axisWidth, incrs: [...steps], values: (_, splits) => splits.map(format) },
        ],
        series: [
          {},
          ...series.map(({ name }, index) => ({
            label: name,
            stroke: colour(`--series-${index + 1}`),
            width: 2,
            dash: dashes[index] ?? [],
            points: { show: times.length < 32, size: 6, fill: colour('--background') },
          })),
        ],
        hooks: { setCursor: [({ cursor }) => setAt(cursor.idx ?? null)] },
      },
      [times.map((ms) => ms / 1_000), ...series.map(({ values }) => [...values])],
      element,
    );
    const sizes = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height }));
    sizes.observe(element);
    return () => {
      sizes.disconnect();
      plot.destroy();
    };
  }, [times, series, scheme]);

  const pointed = at === null ? undefined : times[at];
  return (
    <section class="card chart" aria-label={title}>
      <h2>{title}</h2>
      <ul class="legend">
        {series.map(({ name, values }, index) => (
          <li key={name}>
            <span class={`stroke of-${index + 1}`} />
            {name}
            {at !== null && `: ${shown(values[at], format)}`}
          </li>
        ))}
        {pointed !== undefined && <li class="hint">{props.timeName(pointed)}</li>}
      </ul>
      <div
        ref={box}
        class="plot"
        role="img"
        aria-label={`${title}, drawn over time. The same figures are in the table.`}
      />
      <details>
        <summary>As a table</summary>
        <Table caption={`${title}: the figures`} head={['From', ...series.map(({ name }) => name)]}>
          {times.map((time, index) => (
            <tr key={time}>
              <th scope="row">{props.timeName(time)}</th>
              {series.map(({ name, values }) => (
                <td key={name} class="number">
                  {shown(values[index], format)}
                </td>
              ))}
            </tr>
          ))}
        </Table>
      </details>
    </section>
  );
}

function shown(value: number | null | undefined, format: (value: number) => string): string {
  return value === null || value === undefined ? '–' : format(value);
}

/** Whether the person’s system is light or dark at this moment. */
function useColorScheme(): 'light' | 'dark' {
  const query = matchMedia('(prefers-color-scheme: dark)');
  const [isDark, setIsDark] = useState(query.matches);
  useLayoutEffect(() => {
    const onChange = (): void => setIsDark(query.matches);
    query.addEventListener('change', onChange);
    return () => query.removeEventListener('change', onChange);
  }, []);
  return isDark ? 'dark' : 'light';
}

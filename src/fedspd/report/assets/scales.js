"use strict";
// From numbers to places: what fits on the axes, ticks at round numbers, paths with gaps.

/** Points that the axes can show: a logarithmic axis has no place for what is not positive. */
function pointsOf(series, chart) {
  const fits = (value) => value !== null && (!chart.log_y || value > 0);
  return series.x.flatMap((x, i) => {
    if (chart.log_x && x <= 0) return [];
    const band = series.low !== null && fits(series.low[i]) && fits(series.high[i]);
    return [{
      x, y: fits(series.y[i]) ? series.y[i] : null,
      low: band ? series.low[i] : null, high: band ? series.high[i] : null,
    }];
  });
}

/** Smallest and largest value with some air; a single value gets an interval around it. */
function extent(values, log, air) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value === null || (log && value <= 0)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) return log ? [1, 10] : [0, 1];
  if (log) {
    const room = high > low ? (high / low) ** air : 2;
    return [low / room, high * room];
  }
  const room = high > low ? (high - low) * air : Math.abs(low) / 10 || 1;
  return [low - room, high + room];
}

function scaleOf([low, high], from, to, log) {
  const [start, end, bend] = log ? [Math.log(low), Math.log(high), Math.log] : [low, high, (value) => value];
  return (value) => from + ((bend(value) - start) / (end - start)) * (to - from);
}

function general(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-4)) return String(Number(value.toPrecision(4)).toExponential());
  return String(Number(value.toPrecision(10)));
}

/** Round numbers, about as many as asked; steps of at least one where only whole numbers occur. */
function linearTicks([low, high], count, whole) {
  const rough = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  if (whole) step = Math.max(1, Math.round(step));
  const digits = Math.min(20, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i <= Math.floor(high / step + 1e-9); i++) {
    const value = i * step;
    const small = Math.abs(value) < 1e6 && step >= 1e-5;
    ticks.push({ value, label: small ? value.toFixed(digits) : general(value) });
  }
  return ticks;
}

/** Powers of ten, with numbers between them where there is room; round numbers where there are no two. */
function logTicks([low, high], count) {
  const powers = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) powers.push(power);
  const inside = (factors, every) => powers
    .filter((power) => power % every === 0)
    .flatMap((power) => factors.map((factor) => Number(`${factor}e${power}`)))
    .filter((value) => value >= low && value <= high);
  const values = [[1, 2, 5], [1, 3], [1]].map((factors) => inside(factors, 1)).find((list) => list.length <= count + 1)
    ?? inside([1], Math.ceil(powers.length / count));
  return values.length < 2 ? linearTicks([low, high], count, false)
    : values.map((value) => ({ value, label: general(value) }));
}

/** A value in a tooltip: short numbers as they are, long ones as fine as the axis can tell apart. */
function shown(value, [low, high], log) {
  if (String(value).length <= 7) return String(value);
  if (log || Math.abs(value) >= 1e6) return general(Number(value.toPrecision(5)));
  return value.toFixed(Math.min(12, Math.max(0, 4 - Math.floor(Math.log10(high - low)))));
}

/** Paths of a line and its band, interrupted at gaps; points that stand alone would be invisible as a line. */
function tracesOf(points, x, y) {
  let line = "", open = false;
  const alone = [];
  points.forEach((point, i) => {
    if (point.y !== null) {
      line += `${open ? "L" : "M"}${x(point.x).toFixed(2)} ${y(point.y).toFixed(2)}`;
      const before = i > 0 && points[i - 1].y !== null, after = i + 1 < points.length && points[i + 1].y !== null;
      if (!before && !after) alone.push(point);
    }
    open = point.y !== null;
  });
  let band = "", run = [];
  const close = () => {
    const edge = (name, list) => list.map((p) => `${x(p.x).toFixed(2)} ${y(p[name]).toFixed(2)}`).join("L");
    if (run.length > 1) band += `M${edge("high", run)}L${edge("low", [...run].reverse())}Z`;
    run = [];
  };
  for (const point of points) point.low === null ? close() : run.push(point);
  close();
  return { line, band, alone };
}

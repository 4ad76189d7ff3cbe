// The parts of a chart, drawn by hand as SVG in real pixels so that text keeps its size. Names enter as text only.

const SVG = "http://www.w3.org/2000/svg";
const LETTER = 6.9; // width of a digit at 12 px, to leave room for tick labels

function shape(parent, name, attributes, text) {
  const made = parent.appendChild(document.createElementNS(SVG, name));
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function node(parent, name, className, text) {
  const made = parent.appendChild(document.createElement(name));
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

const colorOf = (series) => `var(--series-${series.color})`;

/** The plot area: places of values, and the axes with their ticks. */
function drawAxes(svg, chart, width, height, ranges) {
  const yTicks = (chart.log_y ? logTicks : linearTicks)(ranges.y, Math.max(2, Math.floor(height / 40)), false);
  const left = 10 + LETTER * Math.max(1, ...yTicks.map((tick) => tick.label.length));
  const box = { left, right: width - 10, top: 12, bottom: height - 24 };
  const x = scaleOf(ranges.x, box.left, box.right, chart.log_x);
  const y = scaleOf(ranges.y, box.bottom, box.top, chart.log_y);
  const whole = chart.series.every((series) => series.x.every(Number.isInteger));
  const xTicks = (chart.log_x ? logTicks : linearTicks)(ranges.x, Math.max(2, Math.floor((width - left) / 60)), whole);
  for (const { value, label } of yTicks) {
    shape(svg, "line", { class: "rule", x1: box.left, x2: box.right, y1: y(value), y2: y(value) });
    shape(svg, "text", { class: "y-tick", x: left - 7, y: y(value) + 4, "text-anchor": "end" }, label);
  }
  shape(svg, "line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom });
  for (const { value, label } of xTicks) {
    shape(svg, "line", { class: "axis", x1: x(value), x2: x(value), y1: box.bottom, y2: box.bottom + 4 });
    shape(svg, "text", { class: "x-tick", x: x(value), y: box.bottom + 18, "text-anchor": "middle" }, label);
  }
  return { x, y, box };
}

/** Dashed lines with their names at the right end, moved apart where they would overlap. */
function drawReferences(svg, chart, { y, box }) {
  const lines = chart.references.filter(([, value]) => !chart.log_y || value > 0);
  let free = 0;
  for (const [name, value] of [...lines].sort((one, other) => other[1] - one[1])) {
    shape(svg, "line", { class: "reference", x1: box.left, x2: box.right, y1: y(value), y2: y(value) });
    const room = Math.floor((box.right - box.left) / LETTER);
    const text = name.length > room ? `${name.slice(0, room - 1)}…` : name;
    free = Math.max(free + 15, y(value) - 5);
    shape(svg, "text", { class: "reference-name", x: box.right, y: free, "text-anchor": "end" }, text);
  }
}

function drawSeries(svg, chart, series, { x, y }) {
  const group = shape(svg, "g", { class: "series", "data-series": chart.series.indexOf(series) });
  const { line, band, alone } = tracesOf(series.points, x, y);
  if (band) shape(group, "path", { class: "band", d: band, fill: colorOf(series) });
  shape(group, "path", { class: "line", d: line, stroke: colorOf(series), "stroke-dasharray": series.dashes });
  const marked = chart.markers ? series.points.filter((point) => point.y !== null) : alone;
  for (const point of marked) shape(group, "circle", { cx: x(point.x), cy: y(point.y), r: 3.5, fill: colorOf(series) });
}

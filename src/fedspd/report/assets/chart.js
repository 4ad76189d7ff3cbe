// A chart that answers: hovering, touching and keys read values, its legend hides and shows series.

const HINT = "click: hide or show; double-click: only this one, or all again";

/** Draw a chart into its figure and keep it alive. */
function makeChart(figure, chart) {
  chart.series.forEach((series) => { series.points = pointsOf(series, chart); });
  const view = { figure, chart, hidden: new Set(), place: null, drawn: null };
  const note = figure.querySelector(".note");
  makeLegend(view);
  node(figure, "p", "unit", chart.y_label);
  view.plot = node(figure, "div", "plot");
  view.plot.tabIndex = 0;
  view.plot.setAttribute("role", "group");
  view.plot.setAttribute("aria-label", `${chart.title}; arrow keys read the values`);
  view.tooltip = node(view.plot, "div", "tooltip");
  view.tooltip.setAttribute("role", "status");
  view.tooltip.hidden = true;
  node(figure, "p", "unit x", chart.x_label);
  if (note) figure.append(note);
  listen(view);
  new ResizeObserver(() => redraw(view)).observe(view.plot);
}

/** Axes fit what is visible; where everything is hidden they stay as if nothing were. */
function rangesOf(chart, visible) {
  const points = (visible.length ? visible : chart.series).flatMap((series) => series.points)
    .filter((point) => point.y !== null);
  const heights = points.flatMap(({ y, low, high }) => [y, low, high]);
  return {
    x: extent(points.map((point) => point.x), chart.log_x, 0.02),
    y: extent([...heights, ...chart.references.map(([, value]) => value)], chart.log_y, 0.05),
  };
}

function redraw(view) {
  const { chart, plot } = view;
  const width = plot.clientWidth;
  if (!width) return;
  const height = Math.round(Math.min(340, Math.max(230, width * 0.62)));
  const visible = chart.series.filter((series) => !view.hidden.has(series));
  const ranges = rangesOf(chart, visible);
  const names = visible.map((series) => series.name).join(", ") || "all series are hidden";
  plot.querySelector("svg")?.remove();
  const svg = shape(plot, "svg", {
    width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `${chart.title}: ${chart.y_label} against ${chart.x_label}. Shown: ${names}.`,
  });
  const axes = drawAxes(svg, chart, width, height, ranges);
  drawReferences(svg, chart, axes);
  visible.forEach((series) => drawSeries(svg, chart, series, axes));
  const stops = new Set(visible.flatMap((series) => series.points).filter(({ y }) => y !== null).map(({ x }) => x));
  if (!stops.size) {
    const text = visible.length ? "nothing to show" : "all series are hidden";
    shape(svg, "text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, text);
  }
  view.drawn = { ...axes, ranges, visible, svg, stops: [...stops].sort((one, other) => one - other) };
  read(view, view.place);
}

/** Of a series the point nearest to a place, unless the place lies outside the series. */
function nearest(series, place) {
  const points = series.points.filter((point) => point.y !== null);
  if (!points.some(({ x }) => x <= place) || !points.some(({ x }) => x >= place)) return null;
  return points.reduce((best, point) => (Math.abs(point.x - place) < Math.abs(best.x - place) ? point : best));
}

/** Show crosshair and values at a place of the x axis, or nothing at none. */
function read(view, place) {
  const { drawn, tooltip, chart } = view;
  drawn?.svg.querySelector(".cursor")?.remove();
  view.place = place !== null && drawn?.stops.includes(place) ? place : null;
  tooltip.hidden = view.place === null;
  if (tooltip.hidden) return;
  const readings = drawn.visible.map((series) => ({ series, point: nearest(series, place) }))
    .filter(({ point }) => point !== null).sort((one, other) => other.point.y - one.point.y);
  const cursor = shape(drawn.svg, "g", { class: "cursor" });
  const across = drawn.x(place);
  shape(cursor, "line", { class: "crosshair", x1: across, x2: across, y1: drawn.box.top, y2: drawn.box.bottom });
  for (const { series, point } of readings) {
    const spot = { class: "spot", cx: drawn.x(point.x), cy: drawn.y(point.y), r: 4.5, fill: colorOf(series) };
    shape(cursor, "circle", spot);
  }
  fillTooltip(tooltip, chart, place, readings, drawn.ranges.y);
  putBeside(view, across);
}

/** The tooltip goes beside the crosshair; where there is no room, above the plot or below it. */
function putBeside({ plot, tooltip }, across) {
  const wide = tooltip.offsetWidth, room = plot.clientWidth - wide, tall = tooltip.offsetHeight;
  const sides = [across + 14, across - 14 - wide].filter((left) => left >= 0 && left <= room);
  const stacked = plot.getBoundingClientRect().top > tall + 4 ? -tall - 4 : plot.clientHeight + 4;
  tooltip.style.left = `${sides[0] ?? Math.max(0, Math.min(room, across - wide / 2))}px`;
  tooltip.style.top = `${sides.length ? 0 : stacked}px`;
}

function fillTooltip(tooltip, chart, place, readings, range) {
  tooltip.replaceChildren();
  node(tooltip, "div", "at", `${chart.x_label} ${general(place)}`);
  const body = node(node(tooltip, "table"), "tbody");
  for (const { series, point } of readings) {
    const row = node(body, "tr");
    node(node(row, "td"), "span", "swatch").style.background = colorOf(series);
    const name = node(row, "td", "", series.name);
    if (point.x !== place) node(name, "small", "", `at ${general(point.x)}`);
    const value = node(row, "td", "value", shown(point.y, range, chart.log_y));
    if (point.low === null) continue;
    node(value, "small", "", `${shown(point.low, range, chart.log_y)} to ${shown(point.high, range, chart.log_y)}`);
  }
}

function listen(view) {
  const { plot } = view;
  const follow = (event) => {
    if (!view.drawn?.stops.length) return;
    const across = event.clientX - plot.getBoundingClientRect().left;
    const away = (stop) => Math.abs(view.drawn.x(stop) - across);
    read(view, view.drawn.stops.reduce((best, stop) => (away(stop) < away(best) ? stop : best)));
  };
  plot.addEventListener("pointermove", follow);
  plot.addEventListener("pointerdown", follow);
  // A finger that is lifted leaves as well; what it pointed at stays until something else is touched.
  plot.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") read(view, null); });
  plot.addEventListener("blur", () => read(view, null));
  plot.addEventListener("focus", () => {
    if (plot.matches(":focus-visible")) read(view, view.place ?? view.drawn?.stops.at(-1) ?? null);
  });
  plot.addEventListener("keydown", (event) => {
    const stops = view.drawn?.stops ?? [], at = stops.indexOf(view.place), last = stops.length - 1;
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last, Escape: -1 }[event.key];
    if (next === undefined || !stops.length) return;
    event.preventDefault();
    read(view, event.key === "Escape" ? null : stops[Math.max(0, Math.min(last, next))]);
  });
}

/** Buttons that hide and show series; a double click leaves only one, or brings all back. */
function makeLegend(view) {
  const { chart, hidden, figure } = view;
  const list = node(figure, "ul", "legend");
  const buttons = chart.series.map((series) => {
    const button = node(node(list, "li"), "button");
    Object.assign(button, { type: "button", title: HINT, ariaPressed: "true" });
    const sample = shape(button, "svg", { width: 30, height: 10, "aria-hidden": "true" });
    const line = { x1: 0, x2: 30, y1: 5, y2: 5, stroke: colorOf(series), "stroke-width": 2.5 };
    shape(sample, "line", { ...line, "stroke-dasharray": series.dashes });
    node(button, "span", "", series.name);
    return button;
  });
  const refresh = () => {
    buttons.forEach((button, i) => { button.ariaPressed = String(!hidden.has(chart.series[i])); });
    redraw(view);
  };
  buttons.forEach((button, i) => {
    const series = chart.series[i];
    button.addEventListener("click", () => {
      if (!hidden.delete(series)) hidden.add(series);
      refresh();
    });
    button.addEventListener("dblclick", () => {
      const alone = chart.series.length > 1 && hidden.size === chart.series.length - 1 && !hidden.has(series);
      hidden.clear();
      if (!alone) chart.series.filter((other) => other !== series).forEach((other) => hidden.add(other));
      refresh();
    });
    const fade = (pale) => () => figure.querySelectorAll(`.series:not([data-series="${i}"])`)
      .forEach((other) => other.classList.toggle("pale", pale && !hidden.has(series)));
    button.addEventListener("pointerenter", fade(true));
    button.addEventListener("pointerleave", fade(false));
  });
}

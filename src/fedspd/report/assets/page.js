// The page comes alive: charts are drawn, tables sort, everything can be taken away as CSV.

/** A field of a CSV file; a spreadsheet must not take a name for a formula. */
function field(value) {
  const text = typeof value === "string" && /^[=+@\-\t\r]/.test(value) ? `'${value}` : String(value ?? "");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function fileName(title) {
  const words = title.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "");
  return `${words.slice(0, 60) || "data"}.csv`;
}

/** A button that hands out rows as a file; nothing leaves the machine. */
function offer(parent, title, rowsOf) {
  const button = node(parent, "button", "download", "Download CSV");
  button.type = "button";
  button.setAttribute("aria-label", `Download CSV: ${title}`);
  button.addEventListener("click", () => {
    const text = rowsOf().map((row) => row.map(field).join(",")).join("\n");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([`${text}\n`], { type: "text/csv;charset=utf-8" }));
    link.download = fileName(title);
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  });
}

/** One row per point, as it stands in the data, hidden series included. */
function chartRows(chart) {
  const rows = chart.series.flatMap(({ name, x, y, low, high }) =>
    x.map((at, i) => [name, at, y[i], low?.[i], high?.[i]]));
  return [["series", chart.x_label, chart.y_label, "low", "high"], ...rows];
}

const numberIn = (cell, name) => (name in cell.dataset ? Number(cell.dataset[name]) : null);

/** The rows in their present order; a mean with an error takes two columns. */
function tableRows(table) {
  const [head, ...body] = [...table.rows].map((row) => [...row.cells]);
  const withError = head.map((_, i) => body.some((row) => numberIn(row[i], "error") !== null));
  const wordsIn = (cell) => (cell.classList.contains("gap") ? "" : cell.innerText);
  const names = head.flatMap((cell, i) => [cell.innerText, ...(withError[i] ? [`${cell.innerText}: error`] : [])]);
  const rows = body.map((row) => row.flatMap((cell, i) =>
    [numberIn(cell, "value") ?? wordsIn(cell), ...(withError[i] ? [numberIn(cell, "error")] : [])]));
  return [names, ...rows];
}

/** Numbers by value before words by alphabet; gaps come last in both directions. */
function compare(one, other, direction) {
  const gaps = [one, other].map((cell) => cell.classList.contains("gap"));
  if (gaps[0] || gaps[1]) return gaps[0] - gaps[1];
  const values = [one, other].map((cell) => numberIn(cell, "value"));
  if (values[0] !== null && values[1] !== null) return direction * (values[0] - values[1]);
  if (values[0] !== null || values[1] !== null) return direction * (values[0] === null ? 1 : -1);
  return direction * one.innerText.localeCompare(other.innerText, "en", { numeric: true });
}

function makeSortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    head.ariaSort = "none";
    button.addEventListener("click", () => {
      const direction = head.ariaSort === "ascending" ? -1 : 1;
      heads.forEach((other) => { other.ariaSort = "none"; });
      head.ariaSort = direction === 1 ? "ascending" : "descending";
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort((one, other) => compare(one.cells[place], other.cells[place], direction)));
    });
  });
}

const charts = JSON.parse(document.getElementById("charts").textContent);
for (const figure of document.querySelectorAll("figure.chart")) {
  const chart = charts[Number(figure.dataset.chart)];
  makeChart(figure, chart);
  offer(figure, chart.title, () => chartRows(chart));
}
for (const table of document.querySelectorAll(".grid table")) {
  makeSortable(table);
  offer(table.closest(".grid"), table.dataset.name, () => tableRows(table));
}

// On paper there is nothing to click: closed configurations are printed open.
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  closed.forEach((details) => { details.open = true; });
});
addEventListener("afterprint", () => closed.forEach((details) => { details.open = false; }));

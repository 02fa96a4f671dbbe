// The comparison as a table: a row per choice with its intervals drawn, and its runs below it when opened.
import { h, svg, fill, path } from "./dom.js";
import { charts } from "./address.js";
import { term } from "./words.js";

const WIDTH = 150;
const HEIGHT = 26;
const EDGE = 8;

export function swatch(colour) {
  return h("span", { class: "swatch", "--light": colour?.light ?? "#888", "--dark": colour?.dark ?? "#888" });
}

// Every number that is drawn, so that all rows share one scale.
function extent(rows, zero) {
  const all = rows.flat().filter((value) => value != null).concat(zero ? [0] : []);
  const low = Math.min(...all), high = Math.max(...all);
  return high > low ? [low, high] : [low - 0.5, high + 0.5];
}

function interval([mean, low, high], seeds, [from, to], zero, name) {
  const x = (value) => EDGE + ((value - from) / (to - from)) * (WIDTH - 2 * EDGE);
  const middle = HEIGHT / 2;
  const line = (x1, y1, x2, y2, kind) => svg("line", { x1, y1, x2, y2, class: kind });
  const known = low != null && high != null;
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: "img", "aria-label": name },
    zero ? line(x(0), 0, x(0), HEIGHT, "zero") : null,
    known ? line(x(low), middle, x(high), middle, "whisker") : null,
    known ? [low, high].map((end) => line(x(end), middle - 4, x(end), middle + 4, "whisker")) : null,
    seeds.filter((one) => one != null).map((one) => svg("circle", { cx: x(one), cy: middle + 8, r: 2.4, class: "seed" })),
    mean == null ? null : svg("circle", { cx: x(mean), cy: middle, r: 4.5, class: "mean" }));
}

function rounded(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

function scale([from, to], title) {
  return h("th", { class: "plot", scope: "col" }, h("span", { class: "hidden" }, title),
    h("span", { class: "ends", "aria-hidden": "true" }, h("span", {}, rounded(from)), h("span", {}, rounded(to))));
}

function runs(choice, width) {
  const folders = choice.runs.map((run) => run.folder);
  return h("tr", { class: "runs" }, h("td", { colspan: width },
    h("ul", {}, choice.runs.map((run) => h("li", {}, h("b", {}, `seed ${run.seed}`), ` ${run.value} `, h("code", {}, path(run.folder))))),
    h("a", { href: charts(folders), target: "_top" }, "Their scalars in Time Series")));
}

export function comparison(place, content, state, set) {
  const [main] = content.tables;
  const [, count, value, between, difference, p, verdict] = main.columns;
  const seeds = (choice) => (state.seeds ? choice.runs.map((run) => run.at) : []);
  const values = extent(content.choices.map((one) => [...one.mean, ...seeds(one)]), false);
  const steps = extent(content.choices.map((one) => one.difference), true);
  const some = content.choices.length > 1;
  const head = (column) => h("th", { scope: "col", class: column.words ? "words" : "" }, term(column.header, column.help));
  const cells = (column, row) => h("td", { class: column.words ? "words" : "" }, column.cells[row]);
  const width = some ? 9 : 5;
  const body = content.choices.flatMap((choice, row) => {
    const colour = content.colours[choice.label];
    const open = state.open === choice.label;
    const word = verdict.cells[row];
    const kind = ["better", "higher"].includes(word) ? "better" : ["worse", "lower"].includes(word) ? "worse" : "";
    const drawn = { "--light": colour.light, "--dark": colour.dark };
    const line = h("tr", { class: row ? "" : "baseline", ...drawn },
      h("th", { scope: "row" }, h("button", {
        type: "button", class: "choice", "aria-expanded": String(open), "data-focus": `choice ${choice.label}`,
        title: "Its runs", onclick: () => set({ open: open ? "" : choice.label }),
      }, swatch(colour), h("span", {}, choice.label))),
      cells(count, row), cells(value, row),
      h("td", { class: "plot" }, interval(choice.mean, seeds(choice), values, false, `${choice.label}: ${between.cells[row]}`)),
      cells(between, row),
      some && cells(difference, row),
      some && h("td", { class: "plot" }, row ? interval(choice.difference.length ? choice.difference : [null, null, null], [], steps, true,
        `${choice.label}: ${difference.cells[row]}`) : null),
      some && cells(p, row),
      some && h("td", { class: `words ${kind}` }, kind === "better" ? "▲ " : kind === "worse" ? "▼ " : "", word));
    return open ? [line, runs(choice, width)] : [line];
  });
  fill(place, h("h2", {}, "Comparison"), h("ul", { class: "summary" }, content.headline.map((one) => h("li", {}, one))),
    h("div", { class: "wide" }, h("table", { class: "main" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "words" }, "choice"), head(count), head(value),
        scale(values, "mean and interval"), head(between),
        some && head(difference), some && scale(steps, "difference and interval"), some && head(p), some && head(verdict))),
      h("tbody", {}, body))),
    [...content.single, content.ranking].map((one) => h("p", { class: "note" }, one)),
    content.notes.length > 0 && h("details", { class: "notes" }, h("summary", {}, `${content.notes.length} ${content.notes.length > 1 ? "warnings" : "warning"}`),
      h("ul", {}, content.notes.map((note) => h("li", {}, note)))));
}

export function measures(place, content) {
  const others = content.tables.slice(1);
  fill(place, others.length && h("h2", {}, "All measures"), others.map((table, index) => [
    (!index || others[index - 1].title !== table.title) && h("h3", {}, table.title),
    h("div", { class: "wide" }, h("table", {},
      h("thead", {}, h("tr", {}, table.columns.map((column) =>
        h("th", { scope: "col", class: column.words ? "words" : "" }, term(column.header, column.help))))),
      h("tbody", {}, table.columns[0].cells.map((label, row) => h("tr", {}, table.columns.map((column, at) => at
        ? h("td", {}, column.cells[row])
        : h("th", { scope: "row" }, swatch(content.colours[label]), label))))))),
  ]));
}

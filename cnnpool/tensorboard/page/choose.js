// Studies of cnnpool choose: candidates in and out, why, the rounds and what is left of the budget.
import { h, fill } from "./dom.js";

function span(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  const hours = Math.floor(seconds / 3600), minutes = Math.round((seconds % 3600) / 60);
  return minutes ? `${hours} h ${minutes} min` : `${hours} h`;
}

function bar(label, value, most, words) {
  return h("div", { class: "measure" }, h("span", {}, label), most && h("progress", { max: most, value: Math.min(value, most), "aria-label": `${label}: ${words}` }), h("span", {}, words));
}

function candidates(study) {
  const rounds = Math.max(1, ...study.trained, study.planned ?? 0);
  const [first, ...others] = study.candidates;
  const head = (one) => h("th", { scope: "col", class: one.words ? "words" : "" }, one.header || "state");
  return h("div", { class: "wide" }, h("table", {},
    h("thead", {}, h("tr", {}, head(first), h("th", { scope: "col", class: "words" }, "rounds"), others.map(head))),
    h("tbody", {}, first.cells.map((label, row) => h("tr", { class: study.left[row] ? "" : "gone" },
      h("th", { scope: "row" }, label),
      h("td", { class: "words" }, h("progress", { max: rounds, value: study.trained[row], "aria-label": `${study.trained[row]} of ${rounds} rounds` })),
      others.map((one) => h("td", { class: one.words ? "words" : "" }, one.cells[row])))))));
}

function study(one) {
  const left = one.left.filter(Boolean).length;
  const planned = one.planned ? `${one.rounds} of at most ${one.planned} complete` : `${one.rounds} complete`;
  const now = one.state === "running" && one.asked ? `${one.said[0].toUpperCase()}${one.said.slice(1)}: ${one.ended} of ${one.asked} runs have ended.` : "";
  const stopped = one.state === "stopped" ? "Stopped: the same command goes on." : "";
  return [
    h("h3", {}, h("span", { class: `pill ${one.state}` }, one.state), ` ${one.folder === "." ? "" : one.folder}`),
    h("p", { class: "verdict" }, one.verdict || `${left} of ${one.left.length} candidates are left. ${now}${stopped}`),
    h("div", { class: "measures" },
      bar("Rounds", one.rounds, one.planned, planned),
      bar("Budget", one.spent_s, one.budget_s, `${span(one.spent_s)} of ${span(one.budget_s)}, ${span(Math.max(0, one.budget_s - one.spent_s))} left`)),
    candidates(one),
    one.gone.length > 0 && h("dl", {}, one.gone.map(([name, why]) => [h("dt", {}, name), h("dd", {}, why)])),
  ];
}

export function choose(place, jobs) {
  place.hidden = !jobs.studies.length;
  fill(place, h("h2", {}, "Choose"), jobs.studies.map(study));
}

// The runs that are not done: how far they have come, which wait, and why others ended.
import { h, fill, path } from "./dom.js";

const SILENT_S = 300;
const MOST = 60;
const ORDER = ["running", "failed", "damaged", "unfinished", "not started", "waiting"];

function since(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

// How far a run has come, why it ended, or what it will do.
function told(job) {
  const silent = Date.now() / 1000 - job.changed;
  const sign = job.state === "running" && job.changed && silent > SILENT_S ? `no sign for ${since(silent)}` : "";
  const words = [];
  if (job.epoch != null) words.push(job.epochs ? `epoch ${job.epoch} of ${job.epochs}` : `epoch ${job.epoch}`);
  if (job.accuracy != null) words.push(`validation accuracy ${job.accuracy.toFixed(2)} %`);
  const reached = words.join(", "), why = sign || (job.asked ? "" : job.reason);
  return [
    job.epoch != null && job.epochs && job.state === "running" && h("progress", { max: job.epochs, value: job.epoch, "aria-label": reached }),
    job.asked && h("code", {}, job.asked),
    [reached, why].filter(Boolean).join("; "),
  ];
}

function pill(state, text = state) {
  return h("span", { class: `pill ${state.replace(" ", "-")}` }, text);
}

export function pills(place, jobs) {
  const counts = Object.entries(jobs.counts);
  fill(place, counts.length ? counts.map(([state, count]) => pill(state, `${count} ${state}`)) : h("span", { class: "pill" }, "no runs"));
}

// As few rows as tell something: of those that wait, the next ones.
export function list(place, jobs) {
  const rows = [...jobs.unfinished].sort((one, other) => ORDER.indexOf(one.state) - ORDER.indexOf(other.state));
  place.hidden = !rows.length;
  const shown = rows.slice(0, MOST);
  const total = Object.entries(jobs.counts).reduce((sum, [state, count]) => sum + (state === "done" ? 0 : count), 0);
  const left = jobs.counts["not started"] ?? 0;
  fill(place, h("h2", {}, "Jobs"), h("div", { class: "wide tall", tabindex: 0, role: "region", "aria-label": "Jobs" }, h("table", { class: "jobs" },
    h("thead", {}, h("tr", {}, ["state", "run", "what"].map((name) => h("th", { scope: "col", class: "words" }, name)))),
    h("tbody", {}, shown.map((job) => h("tr", {},
      h("td", { class: "words" }, pill(job.state)),
      h("th", { scope: "row" }, path(job.folder)),
      h("td", { class: "words why" }, told(job))))))),
    total > shown.length && h("p", { class: "note" }, `and ${total - shown.length} more`),
    left > 0 && h("p", { class: "note" }, `Not started: ${left} jobs of a sweep that has ended; the same command goes on.`));
}

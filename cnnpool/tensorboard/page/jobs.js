// The runs that are not done: how far they have come, which wait, and why others ended.
import { h, fill } from "./dom.js";

const SILENT_S = 300;
const MOST = 60;
const ORDER = ["running", "failed", "damaged", "unfinished", "not started", "waiting"];

function since(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

function progress(job) {
  if (job.asked) return h("code", {}, job.asked);
  if (job.epoch == null) return "";
  const words = job.epochs ? `epoch ${job.epoch} of ${job.epochs}` : `epoch ${job.epoch}`;
  const accuracy = job.accuracy == null ? "" : `, validation accuracy ${job.accuracy.toFixed(2)} %`;
  return [job.epochs && job.state === "running" && h("progress", { max: job.epochs, value: job.epoch, "aria-label": words }), words + accuracy];
}

function reason(job) {
  const silent = Date.now() / 1000 - job.changed;
  if (job.state === "running" && job.changed && silent > SILENT_S) return `no sign for ${since(silent)}`;
  return job.reason;
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
  fill(place, h("h2", {}, "Jobs"), h("div", { class: "wide tall", tabindex: 0 }, h("table", { class: "jobs" },
    h("thead", {}, h("tr", {}, ["state", "run", "progress", "why"].map((name) => h("th", { scope: "col", class: "words" }, name)))),
    h("tbody", {}, shown.map((job) => h("tr", {},
      h("td", { class: "words" }, pill(job.state)),
      h("th", { scope: "row" }, job.folder),
      h("td", { class: "words" }, progress(job)),
      h("td", { class: "words why" }, reason(job))))))),
    total > shown.length && h("p", { class: "note" }, `and ${total - shown.length} more`));
}

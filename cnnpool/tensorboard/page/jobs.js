// The runs that are not done: how far they have come, and why they ended.
import { h, fill } from "./dom.js";

const SILENT_S = 300;
const MOST = 60;
const ORDER = ["running", "failed", "damaged", "unfinished"];

function since(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

function progress(job) {
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

export function pills(place, jobs) {
  const total = Object.values(jobs.counts).reduce((sum, one) => sum + one, 0);
  fill(place, total ? Object.entries(jobs.counts).map(([state, count]) =>
    h("span", { class: `pill ${state}` }, `${count} ${state}`)) : h("span", { class: "pill" }, "no runs"));
}

export function list(place, jobs) {
  const rows = [...jobs.unfinished].sort((one, other) => ORDER.indexOf(one.state) - ORDER.indexOf(other.state));
  place.hidden = !rows.length;
  const rest = rows.length - MOST;
  fill(place, h("h2", {}, "Jobs"), h("div", { class: "wide" }, h("table", { class: "jobs" },
    h("thead", {}, h("tr", {}, ["state", "run", "progress", "why"].map((name) => h("th", { scope: "col", class: "words" }, name)))),
    h("tbody", {}, rows.slice(0, MOST).map((job) => h("tr", {},
      h("td", { class: "words" }, h("span", { class: `pill ${job.state}` }, job.state)),
      h("th", { scope: "row" }, job.folder),
      h("td", { class: "words" }, progress(job)),
      h("td", { class: "words why" }, reason(job))))))),
    rest > 0 && h("p", { class: "note" }, `and ${rest} more`));
}

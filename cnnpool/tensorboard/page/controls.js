// What is compared: measure, baseline, grouping, filter, folder, seeds or means.
import { h, fill } from "./dom.js";

function select(name, value, options, change) {
  const every = options.some((one) => one.value === value) ? options : [{ value, text: value || "automatic" }, ...options];
  const entry = (one) => h("option", { value: one.value, selected: one.value === value }, one.text);
  const groups = [...new Set(every.map((one) => one.group ?? ""))];
  return h("label", { class: "control" }, h("span", {}, name),
    h("select", { "data-focus": name, onchange: (event) => change(event.target.value) }, groups.map((group) => {
      const own = every.filter((one) => (one.group ?? "") === group).map(entry);
      return group ? h("optgroup", { label: group }, own) : own;
    })));
}

function menu(name, shown, open, content) {
  const details = h("details", { class: "control menu", open: open.has(name), ontoggle: () => details.open ? open.add(name) : open.delete(name) },
    h("summary", { "data-focus": name }, h("span", {}, name), h("b", {}, shown)), h("div", { class: "sheet" }, content));
  return details;
}

function tick(name, text, checked, change) {
  return h("label", { class: "tick" }, h("input", { type: "checkbox", checked, "data-focus": name, onchange: (event) => change(event.target.checked) }), text);
}

function grouping(content, state, set, open) {
  const chosen = state.by ? state.by.split(",") : content.by ?? [];
  const keys = content.settings.filter((one) => one.groups && (one.values.length > 1 || chosen.includes(one.key)));
  return menu("Group by", chosen.join(", ") || "automatic", open, [
    keys.map((one) => tick(`by ${one.key}`, one.key, chosen.includes(one.key), (on) => {
      const by = on ? [...chosen, one.key] : chosen.filter((key) => key !== one.key);
      set({ by: by.join(","), baseline: "", open: "" });
    })),
    h("button", { type: "button", "data-focus": "by automatic", onclick: () => set({ by: "", baseline: "", open: "" }) }, "Automatic"),
  ]);
}

function filter(content, state, set, open) {
  const chosen = Object.fromEntries(state.where.map((one) => [one.slice(0, one.indexOf("=")), one.slice(one.indexOf("=") + 1).split(",")]));
  const write = (next) => set({ where: Object.entries(next).filter(([, values]) => values.length).map(([key, values]) => `${key}=${values.join(",")}`) });
  const keys = content.settings.filter((one) => one.values.length > 1 || chosen[one.key]);
  return menu("Filter", state.where.length ? state.where.join("; ") : "all runs", open, [
    keys.map((one) => h("fieldset", {}, h("legend", {}, one.key), one.values.map((value) =>
      tick(`where ${one.key}=${value}`, value, chosen[one.key]?.includes(value) ?? false, (on) => {
        const own = chosen[one.key] ?? [];
        write({ ...chosen, [one.key]: on ? [...own, value] : own.filter((other) => other !== value) });
      })))),
    h("button", { type: "button", "data-focus": "where none", onclick: () => set({ where: [] }) }, "All runs"),
  ]);
}

const opened = new Set();

export function controls(place, content, jobs, state, set) {
  const labels = content.choices?.map((one) => one.label) ?? [];
  const metrics = (content.metrics ?? []).map((one) => ({ value: one.key, text: one.title, group: one.kind === "shown" ? "Measures" : "Every number" }));
  const folders = [{ value: "", text: "all" }, ...jobs.folders.map((one) => ({ value: one.folder, text: `${one.folder} (${one.runs})` }))];
  const mode = (text, value) => h("button", { type: "button", "aria-pressed": String(state.seeds === value), "data-focus": `mode ${text}`, onclick: () => set({ seeds: value }) }, text);
  fill(place,
    folders.length > 2 && select("Folder", state.folder, folders, (folder) => set({ folder, baseline: "", open: "", where: [] })),
    select("Measure", metrics.some((one) => one.value === state.metric) ? state.metric : content.metric?.key ?? state.metric, metrics, (metric) => set({ metric })),
    labels.length > 1 && select("Baseline", content.baseline ?? state.baseline, labels.sort().map((value) => ({ value, text: value })), (baseline) => set({ baseline })),
    grouping(content, state, set, opened), filter(content, state, set, opened),
    h("div", { class: "control modes", role: "group", "aria-label": "Seeds or means" }, mode("means", ""), mode("seeds", "1")));
}

// Why there is no comparison, and the ways out of it.
export function refusal(place, content, jobs, state, set) {
  const total = Object.values(jobs.counts).reduce((sum, one) => sum + one, 0);
  const ways = Object.entries(content.differing).slice(0, 4).map(([key, values]) => {
    const short = key.replace(/\.name$/, "");
    const button = (text, change) => h("button", { type: "button", onclick: () => set(change) }, text);
    return h("p", { class: "ways" }, h("b", {}, short), values.slice(0, 6).map((value) =>
      button(`only ${value.length > 40 ? `${value.slice(0, 40)}…` : value}`, { where: [...state.where, `${short}=${value}`], open: "" })),
    button("tell them apart", { by: [...new Set([...(state.by || "pool").split(","), short])].join(",") }),
    button("mix them", { allow: [...new Set([...state.allow.split(",").filter(Boolean), short])].join(",") }));
  });
  const own = state.by ? state.by.split(",") : ["pool"];
  const apart = content.refusal.startsWith("two runs of") ? content.settings.filter((one) => one.groups && one.values.length > 1 && !own.includes(one.key)).slice(0, 6) : [];
  if (apart.length)
    ways.push(h("p", { class: "ways" }, h("b", {}, "group by too"), apart.map((one) => h("button", { type: "button", onclick: () => set({ by: [...own, one.key].join(",") }) }, one.key))));
  const changed = ["by", "where", "metric", "baseline", "allow", "folder"].some((name) => state[name].length && !(name === "metric" && state.metric === "test.accuracy"));
  fill(place, h("h2", {}, content.refusal ? "No comparison of these runs" : "No finished run yet"),
    content.refusal ? h("pre", {}, content.refusal) : h("p", {}, total
      ? "The comparison appears as soon as a run has finished; until then, learning curves show how far they are."
      : "No run of cnnpool lies in this folder yet. Runs appear here as soon as they begin."),
    ways, changed && h("p", {}, h("button", { type: "button", onclick: () => set({ by: "", where: [], metric: "test.accuracy", baseline: "", allow: "", folder: "", open: "" }) }, "Reset all controls")));
}

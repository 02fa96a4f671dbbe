// The controls in TensorBoard's own address, under the keys that it reserves for a plugin: p.<plugin>.<key>.
const PLUGIN = "downsampling";
const PREFIX = `p.${PLUGIN}.`;
export const DEFAULTS = {
  folder: "", by: "", where: [], metric: "test.accuracy", baseline: "", allow: "", stage: "", seeds: "", open: "",
};

// The frame and TensorBoard's page have the same origin; where they have not, the controls live in the frame.
function page() {
  try {
    return window.parent.location.hash === undefined ? window : window.parent;
  } catch {
    return window;
  }
}

// A malformed % stands for itself.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function read() {
  const state = { ...DEFAULTS };
  for (const part of page().location.hash.slice(1).split("&")) {
    const [key, value] = part.split("=").map(decoded);
    const name = key.startsWith(PREFIX) ? key.slice(PREFIX.length) : "";
    if (name in DEFAULTS && value !== undefined) state[name] = name === "where" ? value.split("\n") : value;
  }
  return state;
}

export function hash(state) {
  const parts = Object.keys(DEFAULTS)
    .map((name) => [name, name === "where" ? state.where.join("\n") : state[name]])
    .filter(([name, value]) => value !== "" && value !== DEFAULTS[name])
    .map(([name, value]) => `&${encodeURIComponent(PREFIX + name)}=${encodeURIComponent(value)}`);
  return `#${PLUGIN}${parts.join("")}`;
}

export function write(state) {
  const here = page();
  // Another tab of TensorBoard may be in front meanwhile.
  if (here === window || here.location.hash.slice(1).split("&")[0] === PLUGIN)
    here.history.replaceState(here.history.state, "", hash(state));
}

export function link(state) {
  const { origin, pathname, search } = page().location;
  return origin + pathname + search + hash(state);
}

// TensorBoard's own charts of some runs.
export function charts(folders) {
  const { origin, pathname } = page().location;
  const names = folders.map((one) => one.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|");
  return `${origin}${pathname}?runFilter=${encodeURIComponent(`^(${names})$`)}#timeseries`;
}

export function onChange(listener) {
  page().addEventListener("hashchange", listener);
}

// What the server is asked.
export function query(state, more = {}) {
  const asked = new URLSearchParams();
  for (const name of ["folder", "by", "metric", "baseline", "allow"]) if (state[name]) asked.set(name, state[name]);
  for (const condition of state.where) asked.append("where", condition);
  for (const [name, value] of Object.entries(more)) if (value) asked.set(name, value);
  return asked.toString();
}

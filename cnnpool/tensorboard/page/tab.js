// The tab: asks the server what has changed, and shows it.
import { h, fill } from "./dom.js";
import * as address from "./address.js";
import { onTheme, theme } from "./theme.js";
import { comparison, measures } from "./table.js";
import { controls, refusal } from "./controls.js";
import { choose } from "./choose.js";
import { list, pills } from "./jobs.js";
import { words } from "./words.js";
import { Figure } from "./figures.js";

const BUSY_MS = 3000;
const QUIET_MS = 10000;
const stage = (state) => ({ stage: state.stage });
const SECTIONS = [
  ["values", "Values and differences", [new Figure("accuracy", "Values"), new Figure("differences", "Differences to the baseline")]],
  ["learning", "Learning", [new Figure("learning", "Learning curves", (state) => ({ seeds: state.seeds }))]],
  ["gradient", "Gradient", [new Figure("routing", "Where the gradient goes", stage), new Figure("gradient", "Inputs without gradient", stage)]],
  ["shift", "Shift", [new Figure("shift", "Change under a shift", stage)]],
  ["tradeoffs", "Trade-offs", [new Figure("pareto", "Accuracy, consistency and cost"), new Figure("headlines", "Other headlines")]],
];

class Tab {
  constructor() {
    this.state = address.read();
    this.jobs = { version: "", results: "", counts: {}, unfinished: [], folders: [], studies: [] };
    this.content = null;
    this.places = {};
    const place = (name, tag = "section") => (this.places[name] = h(tag, { id: name }));
    const stages = SECTIONS.map(([name, title, figures]) => {
      const section = h("section", { id: name }, h("h2", {}, title), this.stagesOf(name), h("div", { class: "figures" }, figures.map((one) => one.element)));
      this.places[name] = section;
      return section;
    });
    this.banner = h("p", { class: "banner", role: "status", hidden: true });
    this.tools = h("div", { class: "tools" });
    this.title = h("h1", {}, "Downsampling");
    this.nav = h("nav", { "aria-label": "Sections" });
    document.body.replaceChildren(
      h("header", {}, h("div", { class: "bar" }, this.title, (this.places.pills = h("div", { class: "pills", role: "status" })), this.tools),
        place("controls", "div"), this.nav),
      this.banner,
      h("main", {}, place("choose"), place("refusal"), place("running"), place("comparison"), stages, place("measures"), place("words")));
  }

  stagesOf(name) {
    if (!["gradient", "shift"].includes(name)) return null;
    return (this.places[`stages-${name}`] = h("div", { id: `stages-${name}`, class: "modes stages", role: "group", "aria-label": "Stage" }));
  }

  set(change) {
    const before = address.query(this.state);
    this.state = { ...this.state, ...change };
    address.write(this.state);
    if (address.query(this.state) === before) this.show();
    else this.compare();
  }

  async ask(route) {
    const answer = await fetch(route);
    if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
    return answer.json();
  }

  async follow() {
    try {
      const jobs = await this.ask(`jobs?version=${this.jobs.version}`);
      const finished = jobs.results !== this.jobs.results;
      const changed = jobs.version !== this.jobs.version;
      if (changed) this.jobs = jobs;
      if (finished || (!this.content && changed)) await this.compare();
      else if (changed) this.show();
      this.say("");
    } catch (error) {
      this.say(`TensorBoard does not answer (${error.message}); asked again in a moment.`);
    }
    const busy = [...this.jobs.unfinished, ...this.jobs.studies].some((one) => ["running", "waiting"].includes(one.state));
    window.setTimeout(() => this.follow(), busy ? BUSY_MS : QUIET_MS);
  }

  async compare() {
    const asked = (this.asked = address.query(this.state));
    document.body.classList.add("asking");
    try {
      const content = await this.ask(`comparison?${asked}`);
      if (this.asked !== asked) return;
      this.content = content;
      this.show();
      this.say("");
    } catch (error) {
      this.say(`TensorBoard does not answer (${error.message}).`);
    } finally {
      document.body.classList.remove("asking");
    }
  }

  say(text) {
    this.banner.textContent = text;
    this.banner.hidden = !text;
  }

  show() {
    const { content, jobs, state, places } = this;
    if (!content) return;
    document.body.dataset.theme = theme();
    const set = (change) => this.set(change);
    const found = Boolean(content.tables);
    pills(places.pills, jobs);
    choose(places.choose, jobs);
    list(places.running, jobs);
    controls(places.controls, content, jobs, state, set);
    this.title.textContent = content.title ?? "Downsampling";
    places.refusal.hidden = found;
    if (found) {
      comparison(places.comparison, content, state, set);
      measures(places.measures, content);
      words(places.words, content);
    } else refusal(places.refusal, content, jobs, state, set);
    for (const name of ["comparison", "measures", "words", "values", "gradient", "shift", "tradeoffs"]) places[name].hidden = !found;
    places.learning.hidden = !found && !jobs.unfinished.length;
    this.stages(found ? content.stages : []);
    this.head(found);
    for (const [name, , figures] of SECTIONS) {
      const version = name === "learning" ? jobs.version : content.results;
      if (!places[name].hidden) for (const figure of figures) figure.show(state, version);
    }
  }

  stages(names) {
    const entry = (text, value) => h("button", {
      type: "button", "aria-pressed": String(this.state.stage === value), "data-focus": `stage ${value}`, onclick: () => this.set({ stage: value }),
    }, text);
    for (const name of ["gradient", "shift"])
      fill(this.places[`stages-${name}`], names.length > 1 && [entry("all stages", ""), names.map((one) => entry(`stage ${one}`, one))]);
  }

  head(found) {
    const asked = address.query(this.state);
    const copy = h("button", { type: "button", "data-focus": "link", onclick: async () => {
      await navigator.clipboard.writeText(address.link(this.state)).then(() => (copy.textContent = "Copied"), () => (copy.textContent = "See the address bar"));
    } }, "Copy link");
    fill(this.tools, copy, found && [["Table CSV", "table.csv"], ["Runs CSV", "runs.csv"], ["LaTeX", "table.tex"]].map(([text, file]) =>
      h("a", { href: `${file}?${asked}`, download: file, class: "file", "data-focus": file }, text)));
    const shown = [["choose", "Choose"], ["running", "Jobs"], ["comparison", "Comparison"], ...SECTIONS, ["measures", "All measures"], ["words", "Words"]];
    fill(this.nav, shown.filter(([name]) => !this.places[name].hidden).map(([name, text]) =>
      h("button", { type: "button", class: "jump", "data-focus": `to ${name}`, onclick: () => this.places[name].scrollIntoView({ block: "start" }) }, text)));
  }
}

// TensorBoard calls this once in the tab's frame.
export async function render() {
  document.documentElement.lang = "en";
  document.title = "Downsampling";
  const style = h("link", { rel: "stylesheet", href: "tab.css" });
  const ready = new Promise((resolve) => { style.onload = style.onerror = resolve; });
  document.head.append(style);
  await ready;
  const tab = new Tab();
  onTheme(() => tab.show());
  address.onChange(() => {
    tab.state = address.read();
    tab.compare();
  });
  await tab.follow();
}

// The report's figures, each fetched when it comes into view and again when what it shows has changed.
import { h } from "./dom.js";
import { query } from "./address.js";
import { theme } from "./theme.js";

const large = h("dialog", { class: "large", "aria-label": "Figure", onclick: () => large.close() }, h("img", { alt: "" }));

export class Figure {
  constructor(name, title, uses = () => ({})) {
    this.name = name;
    this.uses = uses;
    this.title = title;
    this.picture = h("img", { alt: "", onclick: () => this.enlarge() });
    this.caption = h("figcaption");
    this.file = h("a", { download: `${name}.svg`, class: "file" }, "SVG");
    this.bigger = h("button", { type: "button", class: "file", onclick: () => this.enlarge() }, "Enlarge");
    this.element = h("figure", { id: `figure-${name}`, class: "waiting" },
      h("div", { class: "bar" }, h("h3", {}, title), h("span", { class: "tools" }, this.bigger, this.file)),
      this.picture, this.caption);
    this.visible = false;
    new IntersectionObserver(([entry]) => {
      this.visible = entry.isIntersecting;
      if (this.visible) this.load();
    }, { rootMargin: "300px" }).observe(this.element);
  }

  // `version` is another one if the runs behind the figure are.
  show(state, version) {
    this.asked = query(state, { name: this.name, ...this.uses(state) });
    this.wanted = `${this.asked}&theme=${theme()}&version=${version}`;
    this.file.href = `figure.svg?${this.asked}&theme=light`;
    // One with nothing to draw is not laid out, and so never comes into view.
    if (this.visible || this.element.classList.contains("empty")) this.load();
  }

  async load() {
    if (!this.wanted || this.wanted === this.loaded || this.wanted === this.loading) return;
    const wanted = (this.loading = this.wanted);
    this.element.classList.add("stale");
    try {
      const found = await (await fetch(`figure?${wanted}`)).json();
      if (this.loading !== wanted) return;
      this.loaded = wanted;
      this.element.classList.toggle("empty", !found.svg);
      if (found.svg) {
        this.picture.src = `data:image/svg+xml;base64,${found.svg}`;
        this.picture.alt = this.caption.textContent = found.caption;
      }
      this.element.classList.remove("stale", "waiting");
    } catch {
      // Asked again with the next change, or when it comes into view.
    } finally {
      if (this.loading === wanted) this.loading = "";
    }
  }

  enlarge() {
    if (!this.picture.src) return;
    if (!large.isConnected) document.body.append(large);
    large.querySelector("img").src = this.picture.src;
    large.querySelector("img").alt = this.picture.alt;
    large.showModal();
  }
}

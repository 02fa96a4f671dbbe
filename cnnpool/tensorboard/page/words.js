// Definitions: a hover or the keyboard's focus away from every measure, and all together below.
import { h, fill } from "./dom.js";

const bubble = h("div", { class: "bubble", role: "tooltip", id: "bubble", hidden: true });
document.body?.append(bubble);

function show(anchor, text) {
  if (!bubble.isConnected) document.body.append(bubble);
  bubble.textContent = text;
  bubble.hidden = false;
  const at = anchor.getBoundingClientRect();
  const left = Math.min(Math.max(8, at.left), window.innerWidth - bubble.offsetWidth - 8);
  const below = at.bottom + 6 + bubble.offsetHeight < window.innerHeight;
  bubble.style.left = `${left}px`;
  bubble.style.top = `${below ? at.bottom + 6 : Math.max(4, at.top - bubble.offsetHeight - 6)}px`;
}

function hide() {
  bubble.hidden = true;
}

document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
document.addEventListener("scroll", hide, true);

export function term(text, definition) {
  if (!definition) return document.createTextNode(text);
  const element = h("button", {
    type: "button", class: "term", "aria-describedby": "bubble", "data-focus": `term ${text}`,
    onmouseenter: () => show(element, definition), onmouseleave: hide,
    onfocus: () => show(element, definition), onblur: hide,
    onclick: () => show(element, definition),
  }, text);
  return element;
}

function list(title, entries) {
  return [
    h("h3", {}, title),
    h("dl", {}, entries.map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])),
  ];
}

export function words(place, content) {
  fill(place, h("h2", {}, "Words and methods"),
    h("details", {}, h("summary", {}, `Glossary: ${content.glossary.length} measures`),
      h("dl", {}, content.glossary.map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]))),
    h("details", {}, h("summary", {}, "How the numbers were made, and what ran"),
      list("Statistics", content.method), list("Runs", content.provenance)));
}

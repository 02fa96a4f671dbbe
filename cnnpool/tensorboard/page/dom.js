// Elements without markup: every text is a text node, so no name can become an element.
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) element.style.setProperty(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return element;
}

export function svg(tag, properties = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  element.append(...children.flat(Infinity).filter((child) => child != null));
  return element;
}

// A folder's name, which may go on in the next line after its separators.
export function path(name) {
  return name.split(/(?<=[/+])/).flatMap((part) => [part, h("wbr")]);
}

// Replaces the content of `place` unless it is the same, and keeps the keyboard's focus where it was.
export function fill(place, ...children) {
  const focused = place.contains(document.activeElement) && document.activeElement.dataset.focus;
  place.replaceChildren(...children.flat(Infinity).filter((child) => child != null && child !== false));
  if (focused) [...place.querySelectorAll("[data-focus]")].find((one) => one.dataset.focus === focused)?.focus();
}

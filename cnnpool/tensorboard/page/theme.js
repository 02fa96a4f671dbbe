// TensorBoard tells a plugin nothing of its theme: its page marks the body. Without that, the system's theme.
function marked() {
  try {
    return window.parent === window ? null : window.parent.document.body;
  } catch {
    return null;
  }
}

const system = window.matchMedia("(prefers-color-scheme: dark)");

export function theme() {
  const body = marked();
  const dark = body ? body.classList.contains("dark-mode") : system.matches;
  return dark ? "dark" : "light";
}

export function onTheme(listener) {
  const body = marked();
  if (body) new MutationObserver(listener).observe(body, { attributes: true, attributeFilter: ["class"] });
  system.addEventListener("change", listener);
}

// The tab: TensorBoard's address and theme, figures as they come into view, and a refresh that keeps the place.
const PLUGIN = "downsampling", PREFIX = `p.${PLUGIN}.`, BUSY_MS = 3000, QUIET_MS = 10000;
// The frame and TensorBoard's page have the same origin; where they have not, the frame stands alone.
const board = (() => { try { return window.parent.location.hash === undefined ? window : window.parent; } catch { return window; } })();
const one = (chosen) => document.querySelector(chosen);

// The form's values stand in TensorBoard's address under the keys that it reserves for a plugin.
function wanted() {
  const query = new URLSearchParams();
  for (const [key, value] of new URLSearchParams(board.location.hash.slice(1).replaceAll("+", "%2B")))
    if (key.startsWith(PREFIX)) value.split("\n").forEach((part) => query.append(key.slice(PREFIX.length), part));
  return query.size ? `page?${query}` : "page";
}

function told() {
  const query = new URLSearchParams(location.search), part = encodeURIComponent;
  const kept = [...new Set(query.keys())].map((key) => `&${part(PREFIX + key)}=${part(query.getAll(key).join("\n"))}`);
  // Another tab of TensorBoard may be in front meanwhile.
  if (board !== window && board.location.hash.slice(1).split("&")[0] === PLUGIN)
    board.history.replaceState(board.history.state, "", `#${PLUGIN}${kept.join("")}`);
}

async function draw(figure) {
  const src = figure.dataset.src;
  if (figure.dataset.drawn === src) return;
  figure.dataset.drawn = src;
  const answer = await fetch(src).catch(() => null);
  if (!answer?.ok) delete figure.dataset.drawn;
  else if (figure.dataset.src === src) {
    const text = await answer.text();
    figure.hidden = !text;
    figure.innerHTML = new DOMParser().parseFromString(text, "text/html").querySelector("figure")?.innerHTML ?? "";
  }
}

const near = new IntersectionObserver((seen) => seen.forEach((entry) => entry.isIntersecting && draw(entry.target)), { rootMargin: "300px" });
const watch = (place) => place.querySelectorAll("figure[data-src]").forEach((figure) => figure.hidden ? draw(figure) : near.observe(figure));
const name = (element) => [element.tagName, element.name, element.type === "checkbox" ? element.value : element.options ? "" : element.textContent].join();
const sent = new Map();
let etag = "";

// Puts `now` in the place of `was`: open details stay open, drawn figures drawn until their next, and the focus where it was.
function put(was, now) {
  const open = [...was.querySelectorAll("details[open]")].map((details) => details.dataset.key);
  const focus = was.contains(document.activeElement) && name(document.activeElement);
  now.querySelectorAll("details").forEach((details) => { details.open = open.includes(details.dataset.key); });
  for (const figure of now.querySelectorAll("figure[data-src]")) {
    const old = document.getElementById(figure.id);
    if (old) Object.assign(figure, { innerHTML: old.innerHTML, hidden: old.hidden }).dataset.drawn = old.dataset.drawn ?? "";
  }
  was.replaceWith(now);
  if (focus) [...now.querySelectorAll("button, select, input, summary, a")].find((element) => name(element) === focus)?.focus();
}

function merge(fresh) {
  document.title = fresh.title;
  const parts = [fresh.querySelector("header"), ...fresh.querySelector("main").children];
  for (const part of document.querySelectorAll("main > *")) if (!parts.some((other) => other.id === part.id)) part.remove();
  let last = null;
  for (const part of parts) {
    const html = part.outerHTML, was = document.getElementById(part.id);
    if (was && sent.get(part.id) === html) { last = was; continue; }
    sent.set(part.id, html);
    if (was) put(was, part);
    else if (last?.matches("main > *")) last.after(part);
    else one("main").prepend(part);
    last = part;
    watch(part);
  }
  ready();
}

async function show(url, push = false) {
  try {
    const answer = await fetch(url, { headers: push ? {} : { "If-None-Match": etag } });
    if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
    one(".banner").hidden = true;
    if (answer.status === 204) return;
    const text = await answer.text();
    etag = answer.headers.get("ETag") ?? "";
    if (push) history.pushState(null, "", answer.url);
    merge(new DOMParser().parseFromString(text, "text/html"));
    told();
  } catch (error) {
    Object.assign(one(".banner"), { hidden: false, textContent: `TensorBoard does not answer (${error.message}); asked again in a moment.` });
  }
}

function ready() {
  const copy = one("[data-copy]");
  copy.hidden = false;
  copy.onclick = () => navigator.clipboard.writeText(board.location.href).then(() => { copy.textContent = "Copied"; }, () => { copy.textContent = "See the address bar"; });
}

async function follow() {
  await show(location.href);
  setTimeout(follow, one(".running, .waiting") ? BUSY_MS : QUIET_MS);
}

function theme() {
  // TensorBoard tells a plugin nothing of its theme: its page marks the body.
  if (board !== window) document.documentElement.style.colorScheme = document.body.style.colorScheme = board.document.body.classList.contains("dark-mode") ? "dark" : "light";
}

// TensorBoard calls this in a page of its own, which ours replaces.
export function render() {
  location.replace(wanted());
}

if (one("#head")) {
  document.querySelectorAll("#head, main > *").forEach((part) => sent.set(part.id, part.outerHTML));
  if (board !== window) new MutationObserver(theme).observe(board.document.body, { attributes: true, attributeFilter: ["class"] });
  theme();
  told();
  ready();
  watch(document);
  document.addEventListener("change", ({ target }) => target.form && show(`page?${new URLSearchParams(new FormData(target.form))}`, true));
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="page"]');
    if (link && !event.ctrlKey && !event.metaKey) { event.preventDefault(); show(link.href, true); }
  });
  addEventListener("popstate", () => show(location.href));
  board.addEventListener("hashchange", () => {
    const asked = new URL(wanted(), location.href);
    if (board !== window && asked.search && asked.search !== location.search) show(asked.href, true);
  });
  setTimeout(follow, BUSY_MS);
}

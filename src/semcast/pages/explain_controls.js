"use strict";
// Controls of the page of `semcast explain`: zoom, filters, steps, and what a click explains.
let waiting = false;
function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; draw(); });
}
function look(a, b) { // the window, kept inside the run
  const end = about.end + 1, span = Math.min(end, Math.max(20, b - a));
  state.a = Math.max(0, Math.min(end - span, a));
  state.b = state.a + span;
  redraw();
}
function zoom(factor, time = (state.a + state.b) / 2) {
  look(time - (time - state.a) * factor, time + (state.b - time) * factor);
}
function select(i, keepsWindow = false) {
  state.selected = i;
  if (i >= 0) {
    const span = state.b - state.a;
    if (!keepsWindow && (C.t[i] < state.a || C.t[i] >= state.b)) look(C.t[i] - span / 2, C.t[i] + span / 2);
    tell(i);
  }
  redraw();
}
function near(i, events = 300) { // the window that has about this many events around one
  const a = C.t[Math.max(0, i - (events >> 1))], b = C.t[Math.min(count - 1, i + (events >> 1))];
  look(a - (b - a) * 0.02, b + (b - a) * 0.02 + 1);
}
function step(direction) {
  const from = state.selected >= 0 ? state.selected : direction > 0 ? lower(state.a) - 1 : lower(state.b);
  for (let i = from + direction; i >= 0 && i < count; i += direction)
    if (isShown(i)) return select(i);
}

// ------------------------------------------------------------------ the explanation of one event
function element(tag, text, parent, attributes = {}) {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  Object.assign(made, attributes);
  parent?.append(made);
  return made;
}
function titleOf(i) {
  const kind = about.kinds[C.kind[i]], stream = C.stream[i];
  return `${kind}${stream >= 0 ? ` ${messageOf(stream, C.seq[i])}` : ""} at ${nameOf(C.lane[i])}`;
}
function factsOf(i) {
  const facts = [`${clock(C.t[i], 1e3)} · event ${C.n[i]} of ${nameOf(C.lane[i])}`];
  const item = C.item[i] >= 0 ? about.items[C.item[i]] : "", kind = about.kinds[C.kind[i]];
  if (C.by[i]) {
    const by = C.by_stream && C.by_stream[i] ? C.by_stream[i] - 1 : C.stream[i];
    facts.push(`superseded by ${messageOf(by, C.by[i])}`);
  }
  if (item) facts.push(`item ${item}`);
  if (C.peer[i] >= 0) facts.push(`${kind === "receive" || kind === "skip" ? "from" : "peer"} ${nameOf(C.peer[i])}`);
  if (noteOf(i)) facts.push(noteOf(i));
  if (C.view && C.view[i]) facts.push(`view ${C.view[i]}`);
  if (C.position && C.position[i]) facts.push(`position ${C.position[i]}`);
  facts.push(`${C.buffered[i].toLocaleString("en")} in the buffer`);
  return facts.join(" · ");
}
function tell(i) {
  const box = $("detail");
  box.replaceChildren();
  element("h2", titleOf(i), box);
  element("p", factsOf(i), box, { className: "soft" });
  const [sentence, source] = about.rules[C.rule[i]];
  const rule = element("p", sentence, box, { className: "rule" });
  element("b", ` [${source}]`, rule);
  for (const violation of about.violations)
    if (violation.rows.includes(i)) element("p", `${violation.property}: ${violation.what}`, box, { className: "fail" });
  const buttons = element("p", "", box);
  element("button", "zoom to it", buttons, { onclick: () => near(i, 120) });
  const stream = C.stream[i];
  if (stream < 0) return;
  const isAlone = state.message !== null;
  element("button", isAlone ? "show all messages" : "show only this message", buttons, {
    onclick: () => { state.message = isAlone ? null : { stream, seq: C.seq[i] }; select(i); },
  });
  history(box, stream, C.seq[i]);
}
function history(box, stream, seq) {
  element("h3", `The way of ${messageOf(stream, seq)}`, box);
  const table = element("table", "", box), wanted = { stream, seq };
  const body = element("tbody", "", table), seen = new Set();
  for (let i = 0, rows = 0; i < count && rows < 200; i++) {
    if (!isAbout(i, wanted)) continue;
    rows++;
    const kind = about.kinds[C.kind[i]];
    if (kind !== "nack" && kind !== "repair") seen.add(C.lane[i]);
    const row = element("tr", "", body, { onclick: () => select(i) });
    element("td", clock(C.t[i], 1e3), row, { className: "number" });
    element("td", nameOf(C.lane[i]), row);
    const by = C.by[i] ? ` (by ${C.by[i]})` : "", peer = kind === "nack" ? ` → ${nameOf(C.peer[i])}` : "";
    element("td", `${SHAPES[kind]} ${kind}${by}${peer}`, row);
    if (i === state.selected) row.className = "chosen";
  }
  about.processes.forEach((name, lane) => {
    if (seen.has(lane)) return;
    const row = element("tr", "", body, { className: "soft" });
    element("td", "", row); element("td", name, row); element("td", "nothing recorded", row);
  });
}

// ------------------------------------------------------------------ filters
function chips() {
  const totals = new Int32Array(about.kinds.length);
  for (let i = 0; i < count; i++) totals[C.kind[i]]++;
  about.kinds.forEach((name, code) => {
    if (!totals[code]) return;
    const chip = element("button", `${SHAPES[name]} ${name} ${totals[code].toLocaleString("en")}`, $("kinds"), {
      className: `chip ${HUES[name] || "reference"}`,
      title: about.meanings[code],
      onclick: () => {
        state.kinds.has(code) ? state.kinds.delete(code) : state.kinds.add(code);
        chip.setAttribute("aria-pressed", state.kinds.has(code));
        redraw();
      },
    });
    chip.setAttribute("aria-pressed", state.kinds.has(code));
    chip.dataset.kind = name;
  });
}
function fields() {
  const senders = [...new Set(about.streams.map(([lane]) => lane))].sort((a, b) => a - b);
  for (const lane of senders) element("option", nameOf(lane), $("sender"), { value: lane });
  $("sender").onchange = () => { state.sender = Number($("sender").value); redraw(); };
  for (const name of about.items.slice(0, 2000)) element("option", "", $("items"), { value: name });
  $("item").oninput = () => {
    const text = $("item").value.trim();
    state.item = text ? about.items.indexOf(text) : -1;
    $("item").setAttribute("aria-invalid", Boolean(text) && state.item < 0);
    redraw();
  };
  $("item").disabled = !about.items.length;
  $("back").onclick = () => step(-1);
  $("forth").onclick = () => step(1);
  $("closer").onclick = () => zoom(0.5);
  $("wider").onclick = () => zoom(2);
  $("whole").onclick = () => { state.message = null; look(0, about.end + 1); };
}

// ------------------------------------------------------------------ mouse, touch, keys
function nearest(x, y) {
  let best = -1, least = 18 * 18;
  for (let i = lower(state.a), end = lower(state.b); i < end; i++) {
    if (!isShown(i)) continue;
    const [px, py] = plan.at(C.t[i], C.lane[i]), far = (px - x) ** 2 + (py - y) ** 2;
    if (far < least) { least = far; best = i; }
  }
  return best;
}
function gestures() {
  const canvas = $("lanes"), fingers = new Map();
  let moved = 0;
  const place = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  const along = ([x, y]) => (plan.isDown ? y : x);
  canvas.onpointerdown = (event) => { canvas.setPointerCapture(event.pointerId); fingers.set(event.pointerId, place(event)); moved = 0; };
  canvas.onpointermove = (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const now = place(event), others = [...fingers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    const scale = (state.b - state.a) / plan.long;
    moved += Math.abs(along(now) - along(before));
    if (others.length) { // two fingers: zoom around the one that rests
      const rest = along(others[0]), was = Math.abs(along(before) - rest) || 1, is = Math.abs(along(now) - rest) || 1;
      zoom(was / is, plan.timeAt(rest));
    } else { const by = (along(before) - along(now)) * scale; look(state.a + by, state.b + by); }
    fingers.set(event.pointerId, now);
  };
  canvas.onpointerup = (event) => {
    const at = place(event);
    fingers.delete(event.pointerId);
    if (moved < 4) { const found = nearest(...at); if (found >= 0) select(found, true); }
  };
  canvas.onpointercancel = (event) => fingers.delete(event.pointerId);
  canvas.onwheel = (event) => { event.preventDefault(); zoom(event.deltaY > 0 ? 1.25 : 0.8, plan.timeAt(along(place(event)))); };
  const bar = $("overview");
  const go = (event) => {
    if (event.type === "pointermove" && !event.buttons) return;
    const box = bar.getBoundingClientRect(), time = ((event.clientX - box.left) / box.width) * (about.end + 1);
    const span = state.b - state.a > about.end * 0.9 ? about.end / 20 : state.b - state.a;
    look(time - span / 2, time + span / 2);
  };
  bar.onpointerdown = bar.onpointermove = go;
  addEventListener("keydown", (event) => {
    if (["INPUT", "SELECT"].includes(document.activeElement?.tagName)) return;
    const act = { ArrowLeft: () => step(-1), ArrowRight: () => step(1), "+": () => zoom(0.5), "-": () => zoom(2), 0: () => look(0, about.end + 1) }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
}

(async () => {
  await load();
  chips(); fields(); gestures();
  addEventListener("resize", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  const asked = new URLSearchParams(location.hash.slice(1));
  const chosen = asked.has("event") ? Number(asked.get("event")) : about.around;
  window.perf.load_ms = performance.now() - started;
  if (chosen >= 0 && chosen < count) { near(chosen); select(chosen, true); }
  draw();
  document.body.dataset.ready = "1";
})();

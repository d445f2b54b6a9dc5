"use strict";
// The page of `semcast explain`: decodes the events, draws lanes and arrows, answers clicks.
// Times are microseconds since the first event of the run.
const about = JSON.parse(document.getElementById("about").textContent);
const $ = (id) => document.getElementById(id);
const started = performance.now();
const ARROWS_MAX = 3000; // With more events in view, each lane shows densities.
const LABEL_ROOM = 60;
const KIND = Object.fromEntries(about.kinds.map((name, code) => [name, code]));
const SHAPES = {
  multicast: "●", receive: "○", deliver: "■", purge: "✕", skip: "◇", nack: "△", repair: "▲",
  discard: "–", stable: "|", safe: "|", reclaim: "|", confirm: "|", install: "┃", join: "▷",
  recover: "▷", leave: "◁", suspect: "!", crash: "✖", append: "□", acknowledge: "✓",
  request: "+", execute: "+", reply: "+",
};
const HUES = {
  multicast: "ink", purge: "semantic", skip: "semantic", nack: "slow", repair: "slow",
  suspect: "slow", crash: "wrong", install: "ink", join: "ink", recover: "ink", leave: "ink",
};
const QUIET = ["receive", "stable", "safe", "reclaim", "confirm"]; // not shown at first
let C = {}, count = 0, hue = {};
const sent = []; // by stream: number -> index of its multicast
const repairs = []; // by lane: indices
const state = {
  a: 0, b: about.end + 1, selected: -1, item: -1, sender: -1, message: null,
  kinds: new Set(about.kinds.map((_, code) => code).filter((c) => !QUIET.includes(about.kinds[c]))),
};

async function load() {
  const packed = Uint8Array.from(atob($("events").textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const raw = new Uint8Array(await new Response(stream).arrayBuffer());
  let offset = 0;
  for (const [name, bytes, size] of about.columns) {
    // Byte planes: all lowest bytes, then all second bytes, and so on.
    const values = new Int32Array(size);
    for (let plane = 0; plane < bytes; plane++)
      for (let i = 0; i < size; i++) values[i] |= raw[offset++] << (8 * plane);
    C[name] = values;
  }
  count = C.kind.length;
  undelta();
  index();
}

function undelta() {
  const lanes = about.processes.length;
  const n = new Float64Array(lanes), seq = new Int32Array(lanes);
  const t = (C.t = new Float64Array(count));
  let time = about.first;
  for (let i = 0; i < count; i++) {
    const lane = C.lane[i];
    t[i] = time += C.dt[i] >>> 0;
    C.n[i] = n[lane] += C.n[i];
    C.seq[i] = seq[lane] += C.seq[i];
    C.by[i] = C.by[i] ? C.seq[i] + C.by[i] : 0;
    C.stream[i] -= 1; C.peer[i] -= 1; C.item[i] -= 1;
  }
}

function index() {
  about.streams.forEach(() => sent.push(new Map()));
  about.processes.forEach(() => repairs.push([]));
  for (let i = 0; i < count; i++) {
    if (C.kind[i] === KIND.multicast) sent[C.stream[i]].set(C.seq[i], i);
    else if (C.kind[i] === KIND.repair) repairs[C.lane[i]].push(i);
  }
  for (let i = 0; i < count; i++) // The rows of a trace have the item at multicast and deliver.
    if (C.item[i] < 0 && C.stream[i] >= 0) {
      const source = sent[C.stream[i]].get(C.seq[i]);
      if (source !== undefined) C.item[i] = C.item[source];
    }
}

// ------------------------------------------------------------------ questions about events
const laneOf = (stream) => about.streams[stream][0];
const nameOf = (lane) => about.processes[lane];
const messageOf = (stream, seq) => `${nameOf(laneOf(stream))}:${seq}`;
const noteOf = (i) => (C.note[i] ? about.notes[C.note[i] - 1] : "");
function lower(time) {
  let a = 0, b = count;
  while (a < b) { const m = (a + b) >> 1; C.t[m] < time ? (a = m + 1) : (b = m); }
  return a;
}
function covers(i, seq) {
  return noteOf(i).split(" ").some((span) => {
    const [first, last] = span.replace("~", "").split("-").map(Number);
    return first <= seq && seq <= (last || first);
  });
}
function isAbout(i, { stream, seq }) {
  if (C.stream[i] !== stream) return false;
  const kind = about.kinds[C.kind[i]];
  if (kind === "nack" || kind === "repair") return covers(i, seq);
  return C.seq[i] === seq && !["stable", "safe", "reclaim", "confirm"].includes(kind);
}
function isShown(i) {
  if (state.message) return isAbout(i, state.message);
  return state.kinds.has(C.kind[i])
    && (state.sender < 0 || (C.stream[i] >= 0 && laneOf(C.stream[i]) === state.sender))
    && (state.item < 0 || C.item[i] === state.item);
}
function repairBefore(lane, peer, time) {
  const list = repairs[lane];
  let a = 0, b = list.length;
  while (a < b) { const m = (a + b) >> 1; C.t[list[m]] <= time ? (a = m + 1) : (b = m); }
  for (let k = a - 1; k >= Math.max(0, a - 64); k--) if (C.peer[list[k]] === peer) return list[k];
  return -1;
}
function answerTo(i) { // the first repair for a request
  const list = repairs[C.peer[i]] || [];
  let a = 0, b = list.length;
  while (a < b) { const m = (a + b) >> 1; C.t[list[m]] < C.t[i] ? (a = m + 1) : (b = m); }
  for (let k = a; k < Math.min(list.length, a + 64); k++)
    if (C.peer[list[k]] === C.lane[i] && C.stream[list[k]] === C.stream[i]) return list[k];
  return -1;
}
function sourceOf(i) { // [time or null, lane] that an arrow to this event starts at; null: none
  const kind = C.kind[i], stream = C.stream[i];
  if (stream < 0) return null;
  const isReceive = kind === KIND.receive;
  const isFirstSight = kind === KIND.deliver && !state.kinds.has(KIND.receive);
  if (!isReceive && kind !== KIND.skip && !isFirstSight) return null;
  const peer = C.peer[i], home = laneOf(stream);
  if (peer >= 0 && (peer !== home || kind === KIND.skip)) {
    const repair = repairBefore(peer, C.lane[i], C.t[i]);
    return peer === C.lane[i] ? null : [repair < 0 ? null : C.t[repair], peer];
  }
  if (home === C.lane[i]) return null;
  const source = sent[stream].get(C.seq[i]);
  return [source === undefined ? null : C.t[source], home];
}

// ------------------------------------------------------------------ drawing
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
function colours() {
  for (const name of ["ink", "soft", "line", "tint", "paper", "reference", "semantic", "slow", "wrong"])
    hue[name] = css(name);
}
const hueOf = (kind) => hue[HUES[about.kinds[kind]] || "reference"];
function fit(canvas, height) {
  const ratio = devicePixelRatio || 1, width = canvas.clientWidth;
  canvas.width = width * ratio; canvas.height = height * ratio; canvas.style.height = `${height}px`;
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.font = "12px system-ui, sans-serif"; g.textBaseline = "middle";
  return [g, width, height];
}
let plan; // where lanes and times are on the main canvas
function layout() {
  const canvas = $("lanes"), lanes = about.processes.length, isDown = canvas.clientWidth < 600;
  const gap = Math.max(20, Math.min(84, 400 / lanes));
  const [g, W, H] = fit(canvas, isDown ? 560 : Math.max(180, 44 + gap * lanes));
  const from = isDown ? 30 : 78, long = (isDown ? H : W) - from - 12;
  const cross = isDown ? (lane) => 62 + ((W - 72) * (lane + 0.5)) / lanes
    : (lane) => 34 + gap * (lane + 0.62);
  plan = {
    g, W, H, from, long, isDown, gap: isDown ? (W - 72) / lanes : gap, lanes, cross,
    along: (time) => from + ((time - state.a) / (state.b - state.a)) * long,
    timeAt: (place) => state.a + ((place - from) / long) * (state.b - state.a),
  };
  plan.at = (time, lane) => plan.isDown ? [cross(lane), plan.along(time)] : [plan.along(time), cross(lane)];
}
function clock(us, span = state.b - state.a) {
  if (span >= 5e6) return `${(us / 1e6).toFixed(span >= 5e7 ? 0 : 2)} s`;
  const digits = span >= 1e5 ? 0 : span >= 2e3 ? 2 : 3;
  return `${(us / 1e3).toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })} ms`;
}
function axes() {
  const { g, W, H, isDown, from, long, lanes, cross } = plan, span = state.b - state.a;
  g.fillStyle = hue.paper; g.fillRect(0, 0, W, H);
  const wanted = Math.max(2, Math.floor(long / (isDown ? 60 : 95)));
  let step = 1;
  while (span / step > wanted) step *= String(step)[0] === "2" ? 2.5 : 2;
  for (let t = Math.ceil(state.a / step) * step; t < state.b; t += step) {
    const p = Math.round(plan.along(t)) + 0.5;
    g.strokeStyle = hue.line; g.beginPath();
    isDown ? (g.moveTo(56, p), g.lineTo(W - 6, p)) : (g.moveTo(p, 20), g.lineTo(p, H - 6));
    g.stroke();
    g.fillStyle = hue.soft;
    isDown ? g.fillText(clock(t), 4, p) : p < W - 60 && g.fillText(clock(t), p + 3, 11);
  }
  for (let lane = 0; lane < lanes; lane++) {
    const c = Math.round(cross(lane)) + 0.5, crash = about.crashes[lane];
    g.strokeStyle = hue.soft; g.lineWidth = 1; g.beginPath();
    isDown ? (g.moveTo(c, from), g.lineTo(c, from + long)) : (g.moveTo(from, c), g.lineTo(from + long, c));
    g.stroke();
    g.fillStyle = crash === null ? hue.ink : hue.wrong;
    const name = nameOf(lane).slice(0, isDown ? Math.max(2, plan.gap / 7) : 10);
    isDown ? (g.textAlign = "center", g.fillText(name, c, 12), g.textAlign = "left") : g.fillText(name, 6, c);
  }
}
const passes = (i) => C.kind[i] === KIND.skip
  || (C.kind[i] === KIND.purge && noteOf(i) !== "retransmission"); // That one is still delivered here.
function bars(into, lane, a, b, buckets) { // delivered and passed over, by bucket
  const scale = buckets / (b - a), i1 = lower(b);
  for (let i = lower(a); i < i1; i++) {
    if (lane >= 0 && C.lane[i] !== lane) continue;
    const kind = C.kind[i], which = kind === KIND.deliver ? 0 : passes(i) ? 1 : -1;
    if (which < 0 || !(state.message || state.kinds.has(kind)) || !isShown(i)) continue;
    into[which][Math.min(buckets - 1, ((C.t[i] - a) * scale) | 0)]++;
  }
}
function stored(into, lane, a, b, buckets) { // the same from the densities of the whole run
  const of = about.buckets;
  for (let x = 0; x < buckets; x++) {
    const place = Math.floor(((a + ((x + 0.5) * (b - a)) / buckets) / (about.end + 1)) * of);
    if (place < 0 || place >= of) continue;
    const share = (b - a) / buckets / ((about.end + 1) / of);
    for (let l = 0; l < about.processes.length; l++)
      if (lane < 0 || l === lane)
        for (const which of [0, 1]) into[which][x] += share * C.density[(l * 2 + which) * of + place];
  }
}
function density(g, lane, a, b, place, long, base, high, isDown) {
  const wide = 4, buckets = Math.max(1, Math.floor(long / wide));
  const found = [new Float32Array(buckets), new Float32Array(buckets)];
  (about.isWhole ? bars : stored)(found, lane, a, b, buckets);
  const totals = Float32Array.from(found[0], (v, x) => v + found[1][x]).sort();
  const top = Math.max(1e-9, totals[(buckets * 0.99) | 0] * 1.15 || totals[buckets - 1]);
  for (let x = 0; x < buckets; x++) {
    const first = Math.min(high, (found[0][x] / top) * high);
    const second = Math.min(high - first, (found[1][x] / top) * high);
    const p = place + x * wide;
    g.fillStyle = hue.reference;
    isDown ? g.fillRect(base, p, first, wide - 1) : g.fillRect(p, base - first, wide - 1, first);
    g.fillStyle = hue.semantic;
    isDown ? g.fillRect(base + first, p, second, wide - 1) : g.fillRect(p, base - first - second, wide - 1, second);
  }
}
function line(g, x1, y1, x2, y2) { g.beginPath(); g.moveTo(x1, y1); g.lineTo(x2, y2); g.stroke(); }
function arrow(i) {
  const { g } = plan, kind = C.kind[i], end = plan.at(C.t[i], C.lane[i]);
  g.setLineDash(kind === KIND.skip || kind === KIND.nack ? [3, 3] : []);
  g.strokeStyle = kind === KIND.receive || kind === KIND.deliver ? hue.reference : hueOf(kind);
  g.globalAlpha = 0.6; g.lineWidth = 1;
  if (kind === KIND.nack && C.peer[i] >= 0) {
    const answer = answerTo(i), target = plan.cross(C.peer[i]);
    const time = answer < 0 ? C.t[i] + (state.b - state.a) / 40 : C.t[answer];
    const goal = plan.at(Math.min(time, state.b), C.peer[i]);
    const share = answer < 0 ? 0.6 : 1; // A request without an answer ends on the way.
    const x = end[0] + (goal[0] - end[0]) * share, y = end[1] + (goal[1] - end[1]) * share;
    line(g, end[0], end[1], x, y);
    if (answer < 0 && target) { g.globalAlpha = 1; g.fillStyle = hue.slow; g.fillText("?", x + 3, y); }
  } else {
    const source = sourceOf(i);
    if (!source) return;
    const [time, lane] = source;
    if (lane !== C.lane[i] && kind === KIND.receive && lane !== laneOf(C.stream[i])) g.strokeStyle = hue.slow;
    if (time === null || time < state.a) { // It left before the window: a stub shows from where.
      const back = lane < C.lane[i] ? -9 : 9;
      plan.isDown ? line(g, end[0] + back, end[1] - 14, ...end) : line(g, end[0] - 14, end[1] + back, ...end);
    } else line(g, ...plan.at(Math.min(time, C.t[i]), lane), ...end); // Clocks may differ: never back.
  }
}
function mark(i, size = 4) {
  const { g } = plan, [x, y] = plan.at(C.t[i], C.lane[i]), kind = about.kinds[C.kind[i]];
  g.fillStyle = g.strokeStyle = hueOf(C.kind[i]); g.lineWidth = 1.6;
  if (kind === "multicast") { g.beginPath(); g.arc(x, y, size, 0, 7); g.fill(); }
  else if (kind === "receive") { g.lineWidth = 1; g.beginPath(); g.arc(x, y, 2.5, 0, 7); g.stroke(); }
  else if (kind === "deliver") g.fillRect(x - 2.5, y - 2.5, 5, 5);
  else if (kind === "purge" || kind === "crash") {
    const r = kind === "crash" ? 7 : size;
    g.lineWidth = kind === "crash" ? 3 : 1.6;
    line(g, x - r, y - r, x + r, y + r); line(g, x + r, y - r, x - r, y + r);
  } else if (kind === "install") {
    g.lineWidth = 3;
    plan.isDown ? line(g, x - 9, y, x + 9, y) : line(g, x, y - 9, x, y + 9);
  } else if (kind === "skip" || kind === "nack" || kind === "repair") {
    g.beginPath();
    if (kind === "skip") { g.moveTo(x - 4, y); g.lineTo(x, y - 4); g.lineTo(x + 4, y); g.lineTo(x, y + 4); }
    else { g.moveTo(x - 4, y + 4); g.lineTo(x, y - 4); g.lineTo(x + 4, y + 4); }
    g.closePath(); kind === "repair" ? g.fill() : g.stroke();
  } else { g.textAlign = "center"; g.fillText(SHAPES[kind] || "·", x, y); g.textAlign = "left"; }
}
function labels(shown) {
  const { g, isDown } = plan, last = new Map();
  g.font = "10px system-ui, sans-serif";
  for (const i of shown) {
    const kind = about.kinds[C.kind[i]];
    if (!["multicast", "purge", "nack", "install", "crash"].includes(kind)) continue;
    const text = kind === "multicast" ? String(C.seq[i]) : kind === "purge" ? `${C.seq[i]}→${C.by[i]}`
      : kind === "nack" ? noteOf(i).slice(0, 10) : kind === "install" ? `view ${C.view ? C.view[i] : ""}` : kind;
    const [x, y] = plan.at(C.t[i], C.lane[i]), place = isDown ? y : x;
    if (place - (last.get(C.lane[i]) ?? -1e9) < (isDown ? 14 : LABEL_ROOM)) continue;
    last.set(C.lane[i], place);
    g.fillStyle = hueOf(C.kind[i]);
    isDown ? g.fillText(text, x + 8, y) : g.fillText(text, x + 5, y + (kind === "multicast" ? -10 : 11));
  }
  g.font = "12px system-ui, sans-serif";
}
function rings() { // violations and the selection, at every zoom
  const { g } = plan;
  for (const violation of about.violations)
    for (const i of violation.rows) if (i >= 0 && C.t[i] >= state.a && C.t[i] < state.b) ring(g, i, hue.wrong, 8, "!");
  if (state.selected >= 0) ring(g, state.selected, hue.ink, 11, "");
}
function ring(g, i, colour, radius, text) {
  const [x, y] = plan.at(C.t[i], C.lane[i]);
  g.strokeStyle = g.fillStyle = colour; g.lineWidth = 2;
  g.beginPath(); g.arc(x, y, radius, 0, 7); g.stroke();
  if (text) g.fillText(text, x + radius - 2, y - radius - 2);
}
function draw() {
  const before = performance.now();
  colours(); layout(); axes();
  const i0 = lower(state.a), i1 = lower(state.b), shown = [];
  for (let i = i0; i < i1; i++) if (isShown(i)) shown.push(i);
  const isMany = shown.length > ARROWS_MAX || (!about.isWhole && (state.a < about.first || state.b > C.t[count - 1] + 1));
  if (isMany) {
    for (let lane = 0; lane < plan.lanes; lane++)
      density(plan.g, lane, state.a, state.b, plan.from, plan.long, plan.cross(lane), plan.gap * 0.6, plan.isDown);
    for (const i of shown) if (["install", "crash", "suspect"].includes(about.kinds[C.kind[i]])) mark(i);
  } else {
    shown.forEach(arrow);
    plan.g.globalAlpha = 1; plan.g.setLineDash([]);
    shown.forEach((i) => mark(i));
    labels(shown);
  }
  rings(); overview();
  const part = `${shown.length.toLocaleString("en")} of ${about.events.toLocaleString("en")} events`;
  $("shown").textContent = `${clock(state.b - state.a)} shown, ${part}` + (isMany ? "; zoom in for single events" : "");
  window.perf.draw_ms = performance.now() - before;
}
function overview() {
  const [g, W, H] = fit($("overview"), 56), end = about.end + 1;
  g.fillStyle = hue.tint; g.fillRect(0, 0, W, H);
  density(g, -1, 0, end, 0, W, H, H - 14, false);
  g.font = "bold 12px system-ui, sans-serif";
  for (const view of about.views) { g.fillStyle = hue.ink; g.fillRect((view / end) * W, 0, 1.5, H); }
  for (const crash of about.crashes) if (crash !== null) { g.fillStyle = hue.wrong; g.fillText("✖", (crash / end) * W - 5, 8); }
  for (const { t } of about.violations) { g.fillStyle = hue.wrong; g.fillText("!", Math.min(W - 6, (t / end) * W), 8); }
  g.strokeStyle = hue.ink; g.lineWidth = 2;
  g.strokeRect(Math.max(1, (state.a / end) * W), 1, Math.max(4, Math.min(W - 2, ((state.b - state.a) / end) * W)), H - 2);
}
window.perf = { load_ms: 0, draw_ms: 0 };

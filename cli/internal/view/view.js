const by = id => document.getElementById(id), stage = by("stage"), svg = stage.querySelector("svg"), world = by("world");
const root = document.documentElement, ns = "http://www.w3.org/2000/svg";
const element = (name, attributes, inside) => {
  const x = document.createElementNS(ns, name);
  for (const k in attributes) x.setAttribute(k, attributes[k]);
  if (inside !== undefined) x.innerHTML = inside;
  return x;
};
const layoutClass = (name, letter, l) => l < 0 ? name : name + " " + letter + l;

// Groups and boxes have a number: boxes from 0 on, groups from -1 on. parentOf is the group around each.
const parentOf = new Map();
data.groups.forEach((g, k) => { g.id = -k - 1; g.items.forEach(i => parentOf.set(i, g)); });
const whole = data.groups[0], shown = new Map(); // the elements of items
let visible = [], chunks = [], all = { w: 1, h: 1 };

function nodeOf(i) {
  let n = shown.get(i);
  if (n) return n;
  const group = isGroup(i), b = group ? groupOf(i) : data.boxes[i];
  n = element("g", { class: "node " + (group ? "group" : b.kind), tabindex: 0, role: "button", "data-i": i,
    "aria-label": group ? b.label + ", folded" : b.head }, b.svg);
  if (group) n.setAttribute("aria-expanded", "false");
  shown.set(i, n);
  return n;
}
// Chunks are the parts of the drawing that are hidden where they are out of sight.
function addChunk(into, x, y, list) {
  const g = element("g", {}), c = { g, x: Infinity, y: Infinity, u: -Infinity, v: -Infinity, hidden: false };
  for (const [n, left, top, w, h] of list) {
    g.append(n);
    c.x = Math.min(c.x, x + left); c.y = Math.min(c.y, y + top); c.u = Math.max(c.u, x + left + w); c.v = Math.max(c.v, y + top + h);
  }
  into.append(g);
  chunks.push(c);
}
function drawGroup(g, into, x, y) {
  const n = g.now, [w, h] = turn(n.w, n.h), lines = [], nodes = [];
  for (const l of g.drawing.lines) {
    const [path, tips] = pathOf(g, l), v = element("g", { class: "value" });
    v.append(element("path", { class: layoutClass("net", "l", l.layout), d: path }),
      element("path", { class: layoutClass("tip", "f", l.layout), d: tips }));
    v.line = l;
    lines.push([v, 0, 0, w, h]);
  }
  addChunk(into, x, y, lines);
  g.items.forEach((i, k) => {
    const [left, top] = turn(...n.at[k]), [width, height] = turn(...n.sizes[k]), open = isGroup(i) && groupOf(i).open;
    if (!open) {
      const node = nodeOf(i);
      node.setAttribute("transform", "translate(" + num(left) + " " + num(top) + ")");
      visible.push({ i, x: x + left, y: y + top, w: width, h: height });
      nodes.push([node, left, top - 4, width + 5, height + 4]);
      if (nodes.length === 24) addChunk(into, x, y, nodes.splice(0));
      return;
    }
    const inner = groupOf(i), frame = element("g", { class: "frame", "data-i": i, transform: "translate(" + num(left) + " " + num(top) + ")" });
    const grip = element("g", { class: "grip", tabindex: 0, role: "button", "aria-expanded": "true", "aria-label": inner.label + ", open" });
    grip.append(element("rect", { class: "grip", width: num(width), height: headHeight }));
    const text = element("text", { class: "head", x: 10, y: 18 });
    text.textContent = "\u2212 " + inner.label;
    frame.append(element("rect", { class: "box", width: num(width), height: num(height), rx: 6 }), grip, text);
    const [dx, dy] = turn(...insideOf(g, k)), inside = element("g", { transform: "translate(" + num(dx) + " " + num(dy) + ")" });
    into.append(frame);
    for (const [l, path] of joints(g, k)) {
      const v = element("g", { class: "value" });
      v.append(element("path", { class: layoutClass("net", "l", l.layout), d: path }));
      v.line = l;
      into.append(v);
    }
    into.append(inside);
    visible.push({ i, x: x + left, y: y + top, w: width, h: height, frame });
    drawGroup(inner, inside, x + dx, y + dy);
  });
  if (nodes.length) addChunk(into, x, y, nodes);
}
// draw lays the open groups out and draws them.
function draw() {
  layout(whole);
  visible = []; chunks = [];
  world.replaceChildren();
  drawGroup(whole, world, 0, 0);
  const [w, h] = turn(whole.now.w, whole.now.h);
  all = { w, h };
  cull();
  drawMap();
  mark();
}

// The view: the point at the upper left corner, and the scale.
let seen = { x: 0, y: 0, scale: 1 }, pending = false, printed = ""; // printed: the theme before the page is printed
const size = () => stage.getBoundingClientRect();
let room = size();
function show(v) {
  seen = v;
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => { pending = false; paint(); });
}
// The picture is painted with a border around the stage, and moves and grows as a layer until the stage leaves what is
// painted. After a zoom it is painted again, so that it is sharp.
const border = 1 / 4; // of the size of the stage, on each side; view.html has the same
let painted = null, sharpen = 0; // the view that is painted
function layer() { // returns the transform of the layer, or "" if the layer does not cover the stage
  if (!painted) return "";
  const ratio = seen.scale / painted.scale, x = (painted.x - seen.x) * seen.scale, y = (painted.y - seen.y) * seen.scale;
  const covers = (at, length) => at <= ratio * border * length && at + ratio * (1 + border) * length >= length;
  if (ratio > 2 || !covers(x, room.width) || !covers(y, room.height)) return "";
  const dense = devicePixelRatio || 1, whole = at => ratio === 1 ? Math.round(at * dense) / dense : at;
  return "translate(" + whole(x) + "px, " + whole(y) + "px) scale(" + ratio + ")";
}
function repaint() {
  if (printed) return;
  painted = seen;
  world.setAttribute("transform", "translate(" + room.width * border + " " + room.height * border + ") scale(" + seen.scale +
    ") translate(" + -seen.x + " " + -seen.y + ")");
  svg.classList.toggle("far", seen.scale < .3);
  svg.style.transform = layer();
  cull();
}
function paint() {
  if (printed) return;
  const moved = layer();
  clearTimeout(sharpen);
  if (moved) svg.style.transform = moved; else repaint();
  if (seen.scale !== painted.scale) sharpen = setTimeout(repaint, 150);
  const seesAll = seen.x <= 0 && seen.y <= 0 && seen.x + room.width / seen.scale >= all.w && seen.y + room.height / seen.scale >= all.h;
  by("corner").hidden = seesAll;
  const x = Math.max(0, seen.x), y = Math.max(0, seen.y), frame = by("map").lastElementChild.style;
  frame.transform = "translate(" + (x * mapScale + mapLeft) + "px, " + y * mapScale + "px)";
  frame.width = (Math.min(all.w, seen.x + room.width / seen.scale) - x) * mapScale + "px";
  frame.height = (Math.min(all.h, seen.y + room.height / seen.scale) - y) * mapScale + "px";
}
function cull() {
  if (printed || !painted) return;
  const w = room.width / painted.scale, h = room.height / painted.scale;
  const left = painted.x - border * w, top = painted.y - border * h;
  const right = painted.x + (1 + border) * w, bottom = painted.y + (1 + border) * h;
  for (const c of chunks) {
    const hidden = c.x > right || c.y > bottom || c.u < left || c.v < top;
    if (hidden !== c.hidden) { c.hidden = hidden; c.g.style.visibility = hidden ? "hidden" : ""; }
  }
}
const centred = (x, y, scale) => show({ x: x - room.width / scale / 2, y: y - room.height / scale / 2, scale });
const largest = 2; // the scale of a small picture in a large window
function fit() { centred(all.w / 2, all.h / 2, Math.min(largest, room.width / all.w, room.height / all.h)); }
let started = null; // the view of start
function start() { // the first boxes, so that they can be read
  const [across, down] = turn(room.width / all.w, room.height / all.h);
  const whole = Math.min(across, down), margin = .95;
  const scale = whole * margin > 1 ? Math.min(largest, whole * margin) : Math.min(1, Math.max(.55, Math.min(across, Math.max(down, .9))));
  const first = visible[0] || { x: all.w / 2, y: all.h / 2, w: 0, h: 0 };
  const along = (total, seen, at) => total <= seen ? total / 2 : Math.min(Math.max(at, seen / 2), total - seen / 2); // no empty margin
  if (data.horizontal) centred(Math.min(all.w / 2, room.width / scale / 2), along(all.h, room.height / scale, first.y + first.h / 2), scale);
  else centred(along(all.w, room.width / scale, first.x + first.w / 2), Math.min(all.h / 2, room.height / scale / 2), scale);
  started = seen;
}
function zoom(factor, px = room.left + room.width / 2, py = room.top + room.height / 2) {
  const scale = Math.min(8, Math.max(.01, seen.scale * factor)), x = px - room.left, y = py - room.top;
  show({ x: seen.x + x / seen.scale - x / scale, y: seen.y + y / seen.scale - y / scale, scale });
}
stage.addEventListener("wheel", e => {
  e.preventDefault();
  if (e.ctrlKey || e.metaKey || !e.shiftKey) zoom(Math.exp(-e.deltaY * (e.deltaMode ? .05 : .0015)), e.clientX, e.clientY);
  else show({ ...seen, x: seen.x + e.deltaY / seen.scale });
}, { passive: false });
let drag = null, dragged = false;
stage.addEventListener("pointerdown", e => {
  dragged = false;
  drag = { x: e.clientX, y: e.clientY, at: seen, far: false, id: e.pointerId };
});
stage.addEventListener("pointermove", e => {
  if (!drag || e.pointerId !== drag.id) return;
  const dx = e.clientX - drag.x, dy = e.clientY - drag.y;
  if (!drag.far && Math.hypot(dx, dy) < 5) return;
  if (!drag.far) { drag.far = true; stage.setPointerCapture(e.pointerId); stage.classList.add("drag"); }
  show({ ...drag.at, x: drag.at.x - dx / seen.scale, y: drag.at.y - dy / seen.scale });
});
for (const name of ["pointerup", "pointercancel"]) stage.addEventListener(name, () => {
  dragged = !!drag && drag.far; drag = null; stage.classList.remove("drag");
});
const itemAt = target => { const n = target.closest("[data-i]"); return n ? Number(n.dataset.i) : null; };
stage.addEventListener("click", e => {
  if (dragged) { dragged = false; return; }
  const i = itemAt(e.target);
  if (i !== null && isGroup(i) && (e.target.closest(".node") || !e.target.matches(".box"))) toggle(i);
  else pick(i !== null && e.target.closest(".node") ? i : null);
});
stage.addEventListener("pointerover", e => { // a tooltip, once it is wanted
  const v = e.target.closest(".value"), n = e.target.closest(".node");
  if (v && !v.tip) { v.tip = true; v.append(element("title", {}, "")); v.lastChild.textContent = tipOf(v.line); }
  if (n && !n.tip && !isGroup(itemAt(n))) {
    n.tip = true;
    n.append(element("title", {}, ""));
    n.lastChild.textContent = data.boxes[itemAt(n)].facts.map(f => f.name + ": " + f.text).join("\n");
  }
});
const tipOf = l => l.values.slice(0, 4).map(v => data.values[v].tip).join("\n") +
  (l.values.length > 4 ? "\nand " + (l.values.length - 4) + " more values" : "");

// toggle opens or folds a group; its upper left corner stays where it is on the screen.
const placeOf = i => visible.find(v => v.i === i);
function toggle(i, open = !groupOf(i).open) {
  const before = placeOf(i);
  groupOf(i).open = open;
  draw();
  const after = placeOf(i);
  if (before && after) {
    const x = open || before.w < room.width / seen.scale ? before.x + before.w / 2 - after.x - after.w / 2 : before.x - after.x;
    let y = before.y - after.y;
    const top = after.y - seen.y + y; // a folded group stays in sight
    if (!open && (top < 0 || top > room.height / seen.scale)) y = seen.y + room.height / seen.scale / 3 - after.y;
    seen = { ...seen, x: seen.x - x, y: seen.y - y };
  }
  paint();
  pick(i);
  const n = after && (after.frame ? after.frame.querySelector("g.grip") : shown.get(i));
  if (n) n.focus({ preventScroll: true });
}
function reveal(i) { // opens the groups around an item
  let changed = false;
  for (let g = parentOf.get(i); g && g !== whole; g = parentOf.get(g.id)) if (!g.open) g.open = changed = true;
  if (changed) draw();
}
function openAll(open) {
  data.groups.forEach(g => { if (g !== whole) g.open = open; });
  draw();
  fit();
}
function look(i) {
  const v = placeOf(i);
  if (v) centred(v.x + v.w / 2, v.y + Math.min(v.h / 2, room.height / 2), Math.max(.7, seen.scale));
}

// The overview.
let mapScale = 1, mapLeft = 0;
function drawMap() {
  const most = [Math.min(220, room.width * .3), Math.min(260, room.height * .4)], dense = devicePixelRatio || 1;
  mapScale = Math.min(most[0] / all.w, most[1] / all.h);
  const canvas = by("map").firstElementChild, w = Math.max(60, all.w * mapScale), h = Math.max(24, all.h * mapScale);
  mapLeft = (w - all.w * mapScale) / 2;
  canvas.width = w * dense; canvas.height = h * dense;
  canvas.style.width = w + "px"; canvas.style.height = h + "px";
  const c = canvas.getContext("2d"), style = getComputedStyle(root), color = name => style.getPropertyValue(name);
  const fills = { input: color("--pick"), output: color("--pick"), copy: color("--alarm"), group: color("--groupedge") }, usual = color("--edge");
  c.scale(mapScale * dense, mapScale * dense);
  c.translate(mapLeft / mapScale, 0);
  for (const v of visible) {
    const kind = isGroup(v.i) ? "group" : data.boxes[v.i].kind;
    if (v.frame) { c.globalAlpha = .12; c.fillStyle = fills.group; } else { c.globalAlpha = 1; c.fillStyle = fills[kind] || usual; }
    c.fillRect(v.x, v.y, Math.max(v.w, 1.5 / mapScale), Math.max(v.h, 1.5 / mapScale));
  }
}
const goTo = e => {
  const r = by("map").getBoundingClientRect();
  centred((e.clientX - r.left - mapLeft) / mapScale, (e.clientY - r.top) / mapScale, seen.scale);
};
by("map").addEventListener("pointerdown", e => { by("map").setPointerCapture(e.pointerId); goTo(e); });
by("map").addEventListener("pointermove", e => { if (e.buttons) goTo(e); });

// The panel.
function make(tag, text, into, name) {
  const x = document.createElement(tag);
  if (text !== undefined) x.textContent = text;
  if (name) x.className = name;
  if (into) into.append(x);
  return x;
}
const nameOf = b => b.facts.length ? b.facts[0].text : b.head;
function table(panel, list, last, name = "steps") {
  const t = make("table", undefined, panel, name);
  for (const i of list) {
    const row = make("tr", undefined, t), b = data.boxes[i];
    const text = b.kind === "copy" || b.head === nameOf(b) ? b.head : nameOf(b) + " · " + b.head;
    make("div", text, make("td", undefined, row), "clamped").title = text;
    make("td", last(b), row);
    row.tabIndex = 0;
    const go = () => { reveal(i); pick(i); look(i); };
    row.addEventListener("click", go);
    row.addEventListener("keydown", e => { if (e.key === "Enter") go(); });
  }
}
const cost = b => (b.facts.find(f => f.name === "cost") || { text: "" }).text;
function lists(panel, boxes) {
  const marked = boxes.filter(i => data.boxes[i].marks);
  const different = marked.filter(i => !(data.boxes[i].peer < i && boxes.includes(data.boxes[i].peer)));
  if (different.length) {
    make("h3", "Differences", panel);
    table(panel, different.slice(0, 40), b => b.marks.join("; "), "steps wide");
    if (different.length > 40) make("div", "and " + (different.length - 40) + " more", panel);
  }
  const copies = boxes.filter(i => data.boxes[i].kind === "copy");
  if (copies.length) { make("h3", "Inserted copies", panel); table(panel, copies, cost); }
  const dear = boxes.filter(i => data.boxes[i].share > 0).sort((a, b) => data.boxes[b].share - data.boxes[a].share).slice(0, 12);
  if (dear.length) { make("h3", "Most expensive steps", panel); table(panel, dear, cost); }
}
function legend(panel) {
  make("h3", "Layouts of values", panel);
  for (const l of data.legend) {
    const row = make("div", undefined, panel), s = element("svg", { class: "swatch", viewBox: "0 0 36 10" });
    s.append(element("path", { d: "M0 5h36", fill: "none", "stroke-width": 3, stroke: l.color, "stroke-dasharray": l.dash }));
    row.append(s, l.name + " (" + l.count + ")");
  }
}
function boxLegend(panel) { // explains the signs that the picture has
  const some = holds => data.boxes.some(holds), kind = k => some(b => b.kind === k);
  const signs = [[data.legend.length, "Stripe on the left: the layout of the result."],
    [some(b => b.share > 0), (some(b => b.svg.includes("measured")) ? "Upper bar: the estimated cost; lower bar, in " +
      "orange: the measured time. The longest bar is the largest of all these" : "Bar: the estimated cost; the longest " +
      "bar is the most expensive step of the plan") + ". Percentages are of the whole plan."],
    [kind("view"), "Dotted border: a view of its operand, without work."],
    [kind("copy"), "Dashed red border: an inserted copy."], [data.groups.length > 1, "Stack: a folded group of boxes."],
    [some(b => b.marks), "Black corner and \u2260: differs from the other plan."]].filter(s => s[0]);
  if (signs.length) make("h3", "Boxes", panel);
  for (const s of signs) make("div", s[1], panel);
}
function overview(panel) {
  make("h2", data.title, panel);
  for (const r of data.remarks) make("div", r, panel);
  if (data.legend.length) legend(panel);
  boxLegend(panel);
  lists(panel, data.boxes.map((_, i) => i));
  make("h3", "Navigation", panel);
  make("div", "Drag to move, turn the wheel to zoom. Click a group to open it, and the label of its frame to fold it; click a " +
    "step for its details. Keys: / searches, Enter goes to the next result, arrows go to the next box, Enter opens and folds " +
    "a group, + and - zoom, 0 shows all.", panel);
}
const boxesIn = g => g.items.flatMap(i => isGroup(i) ? boxesIn(groupOf(i)) : [i]);
let picked = null;
function mark() { // marks hits and the picked item
  for (const v of visible) {
    const n = v.frame || shown.get(v.i);
    n.classList.toggle("picked", v.i === picked);
    n.classList.toggle("peer", picked >= 0 && picked !== null && data.boxes[picked].peer === v.i);
    n.classList.toggle("hit", !v.frame && (isGroup(v.i) ? boxesIn(groupOf(v.i)).some(i => hits.has(i)) : hits.has(v.i)));
  }
  const near = picked === null ? new Set() : new Set(isGroup(picked) ? boxesIn(groupOf(picked)) : [picked]);
  svg.classList.toggle("chosen", near.size > 0);
  const ends = data.values.map(v => near.has(v.from) || v.to.some(i => near.has(i)));
  for (const v of world.querySelectorAll(".value")) v.classList.toggle("near", v.line.values.some(k => ends[k]));
}
function pick(i) {
  picked = i;
  mark();
  const panel = by("panel");
  panel.replaceChildren();
  panel.scrollTop = 0;
  if (i === null) return overview(panel);
  if (isGroup(i)) {
    const g = groupOf(i), inside = boxesIn(g);
    make("h2", g.label, panel);
    for (const line of g.lines) make("div", line, panel);
    const b = make("button", g.open ? "Fold" : "Open", panel);
    b.onclick = () => toggle(i);
    lists(panel, inside);
    return;
  }
  const b = data.boxes[i];
  make("h2", b.head, panel);
  const list = make("dl", undefined, panel);
  for (const f of b.facts) { make("dt", f.name, list); make("dd", f.text, list, f.name === "why" ? "why" : ""); }
  if (b.peer !== undefined) {
    const other = make("button", "Go to the same step of the other plan", panel);
    other.onclick = () => { reveal(b.peer); pick(b.peer); look(b.peer); };
  }
  for (const text of b.explain) make("pre", text, panel);
}

const words = data.boxes.map(b => [b.kind, b.head, ...b.facts.map(f => f.text)].join("\n").toLowerCase());
let hits = new Set(), found = [], at = -1;
function search() {
  const wanted = by("search").value.toLowerCase().split(/\s+/).filter(w => w);
  found = wanted.length ? words.flatMap((w, i) => wanted.every(x => w.includes(x)) ? [i] : []) : [];
  hits = new Set(found);
  at = -1;
  mark();
  by("found").textContent = wanted.length ? found.length + " found" : "";
}
function next(step) {
  if (!found.length) return;
  at = at < 0 && step < 0 ? found.length - 1 : (at + step + found.length) % found.length;
  reveal(found[at]); pick(found[at]); look(found[at]);
  by("found").textContent = (at + 1) + " of " + found.length;
}
by("search").addEventListener("input", search);
by("search").addEventListener("keydown", e => {
  if (e.key === "Enter") next(e.shiftKey ? -1 : 1);
  if (e.key === "Escape") { by("search").value = ""; search(); by("search").blur(); }
});
by("in").onclick = () => zoom(1.3); by("out").onclick = () => zoom(1 / 1.3); by("fit").onclick = fit;
by("unfold").onclick = () => openAll(true); by("fold").onclick = () => openAll(false);
by("unfold").hidden = by("fold").hidden = data.groups.length < 2;
function theme(name) { root.dataset.theme = name; drawMap(); }
by("theme").onclick = () => theme(root.dataset.theme === "dark" ? "light" : "dark");
const arrows = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };
addEventListener("keydown", e => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.matches("input")) return;
  const i = stage.contains(e.target) ? itemAt(e.target) : null;
  if (e.key === "/") { e.preventDefault(); by("search").focus(); }
  else if (e.key === "+" || e.key === "=") zoom(1.3);
  else if (e.key === "-") zoom(1 / 1.3);
  else if (e.key === "0") fit();
  else if (e.key === "Escape") pick(null);
  else if ((e.key === "Enter" || e.key === " ") && i !== null) { e.preventDefault(); if (isGroup(i)) toggle(i); else pick(i); }
  else if (e.key in arrows && !by("panel").contains(e.target) && visible.length) {
    e.preventDefault();
    const k = visible.findIndex(v => v.i === picked), v = visible[k < 0 ? 0 : (k + arrows[e.key] + visible.length) % visible.length];
    pick(v.i); look(v.i); paint();
    (v.frame ? v.frame.querySelector("g.grip") : shown.get(v.i)).focus({ preventScroll: true });
  }
});
new ResizeObserver(() => {
  const x = seen.x + room.width / seen.scale / 2, y = seen.y + room.height / seen.scale / 2, first = !room.width;
  room = size();
  painted = null;
  drawMap();
  if (first || seen === started) start(); else centred(x, y, seen.scale);
}).observe(stage);

// On paper: all that is open, on a page of its size.
const paper = document.head.appendChild(document.createElement("style"));
addEventListener("beforeprint", () => {
  printed = root.dataset.theme;
  root.dataset.theme = "light";
  const sheet = by("sheet");
  sheet.replaceChildren();
  make("h2", data.title, sheet);
  for (const r of data.remarks) make("div", r, sheet);
  if (data.legend.length) legend(sheet);
  boxLegend(sheet);
  for (const c of chunks) { c.hidden = false; c.g.style.visibility = ""; }
  svg.classList.remove("far", "chosen");
  clearTimeout(sharpen);
  world.setAttribute("transform", "");
  svg.setAttribute("viewBox", "0 0 " + all.w + " " + all.h);
  svg.style.width = all.w + "px"; svg.style.height = all.h + "px";
  const w = Math.max(760, all.w + 60), h = all.h + 400 + 24 * (data.remarks.length + data.legend.length);
  const shrink = Math.min(1, 14000 / w, 14000 / h); // readers of PDF stop at 200 inches
  svg.style.width = all.w * shrink + "px"; svg.style.height = all.h * shrink + "px";
  paper.textContent = "@page { margin: 0; size: " + Math.ceil(Math.max(760, w * shrink)) + "px " + Math.ceil(h * shrink + 100) + "px }";
});
addEventListener("afterprint", () => {
  svg.removeAttribute("viewBox"); svg.removeAttribute("style");
  paper.textContent = "";
  theme(printed);
  printed = "";
  painted = null;
  paint();
  mark();
});
root.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
draw();
pick(null);
start();

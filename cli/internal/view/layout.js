// Layout: the drawing of each group was computed once. A group that is opened or folded stretches or shrinks the
// drawing around it, so that the other boxes keep their places relative to each other.
const headHeight = 26, margin = 20, half = 6; // of frames, drawings and ports
const turn = (x, y) => data.horizontal ? [y, x] : [x, y];
const num = x => Math.round(x * 10) / 10;
const point = (x, y) => turn(num(x), num(y)).join(" ");
const curve = (x, y, u, v) => "C" + point(x, (y + v) / 2) + " " + point(u, (y + v) / 2) + " " + point(u, v);
const isGroup = i => i < 0, groupOf = i => data.groups[-i - 1];

// itemSize returns the size of an item along and across the direction of the picture.
function itemSize(i) {
  if (!isGroup(i)) return turn(data.boxes[i].w, data.boxes[i].h);
  const g = groupOf(i);
  if (!g.open) return turn(g.w, g.h);
  const l = layout(g), [w, h] = turn(l.w, l.h);
  l.frameWidth = Math.max(w, g.labelWidth);
  return turn(l.frameWidth, h + headHeight);
}
// stretched returns a monotone function that gives each item its new width around its centre.
function stretched(spans) {
  const ends = [...new Set(spans.flatMap(s => [s.from, s.to]))].sort((a, b) => a - b), at = [];
  let moved = 0;
  for (let k = 0; k < ends.length; k++) {
    at.push(ends[k] + moved);
    if (k + 1 === ends.length) break;
    let scale = 0;
    for (const s of spans) if (s.from <= ends[k] && s.to >= ends[k + 1]) scale = Math.max(scale, s.scale);
    if (scale) moved += (scale - 1) * (ends[k + 1] - ends[k]);
  }
  return x => {
    let low = 0, high = ends.length - 1;
    if (high < 0 || x <= ends[0]) return x;
    if (x >= ends[high]) return x + moved;
    while (high - low > 1) { const m = (low + high) >> 1; if (ends[m] <= x) low = m; else high = m; }
    return at[low] + (x - ends[low]) / (ends[high] - ends[low]) * (at[high] - at[low]);
  };
}
// layout returns the sizes and positions of a group's items, with the groups in it as they are open now.
function layout(g) {
  const d = g.drawing, sizes = g.items.map(itemSize);
  for (const p of d.ports) sizes.push([2 * half, 0]);
  const across = stretched(sizes.flatMap((s, i) => {
    const [w] = d.sizes[i], x = d.at[i][0];
    return w > 0 ? [{ from: x, to: x + w, scale: s[0] / w }] : [];
  }));
  const bands = [];
  let y = margin;
  d.layers.forEach(([top, bottom], k) => {
    if (k > 0) y += top - d.layers[k - 1][1];
    const height = Math.max(0, ...sizes.filter((_, i) => d.ranks[i] === k).map(s => s[1]));
    bands.push([y, y + height]);
    y += height;
  });
  const at = sizes.map(([w, h], i) => {
    const [top, bottom] = bands[d.ranks[i]];
    const start = d.lines.length ? (top + bottom - h) / 2 : top; // two plans side by side begin at the same height
    return [across(d.at[i][0] + d.sizes[i][0] / 2) - w / 2, start];
  });
  g.now = { w: across(d.w), h: y + margin, sizes, at, bands, across };
  return g.now;
}
// endOf returns the x at which a line that was drawn to x meets an item.
function endOf(g, i, x) {
  const d = g.drawing, [w] = g.now.sizes[i], centre = g.now.at[i][0] + w / 2, room = Math.max(0, w / 2 - 4);
  return centre + Math.max(-room, Math.min(room, x - d.at[i][0] - d.sizes[i][0] / 2));
}
// pathOf returns the path of a line, and its arrowheads.
function pathOf(g, l) {
  const d = g.drawing, n = g.now, first = d.ranks[l.from], x0 = endOf(g, l.from, l.leave);
  const bottomOf = i => n.at[i][1] + n.sizes[i][1];
  let path = "M" + point(x0, bottomOf(l.from)) + "L" + point(x0, n.bands[first][1]), tips = "";
  const xs = [x0, ...l.cross.map(n.across)];
  for (let k = 1; k < xs.length; k++) {
    const [top, bottom] = n.bands[first + k];
    path += curve(xs[k - 1], n.bands[first + k - 1][1], xs[k], top) + "L" + point(xs[k], bottom);
  }
  l.to.forEach((to, k) => {
    const rank = d.ranks[to], from = xs[rank - 1 - first], x = endOf(g, to, l.arrive[k]), y = n.at[to][1];
    const above = n.bands[rank - 1][1];
    path += "M" + point(from, above) + curve(from, above, x, n.bands[rank][0]) + "L" + point(x, y);
    const item = g.items[to];
    if (item === undefined || isGroup(item) && groupOf(item).open) return; // it continues
    tips += "M" + point(x, y) + "L" + point(x - 4, y - 7) + "L" + point(x + 4, y - 7) + "z";
  });
  return [path, tips];
}
// insideOf returns the place of an open group's drawing in the drawing around it.
function insideOf(g, k) {
  const inner = groupOf(g.items[k]).now, [w] = turn(inner.w, inner.h), [dx, dy] = turn((inner.frameWidth - w) / 2, headHeight);
  return [g.now.at[k][0] + dx, g.now.at[k][1] + dy];
}
// joints returns the paths that continue the lines around an open group to its ports.
function joints(g, k) {
  const inner = groupOf(g.items[k]), [x0, y0] = insideOf(g, k), list = [];
  inner.drawing.ports.forEach(([n, out], p) => {
    const i = inner.items.length + p, x = x0 + inner.now.at[i][0] + half, y = y0 + inner.now.at[i][1], l = g.drawing.lines[n];
    const u = endOf(g, k, out ? l.leave : l.arrive[l.to.indexOf(k)]), v = g.now.at[k][1] + (out ? g.now.sizes[k][1] : 0);
    list.push([l, out ? "M" + point(x, y) + curve(x, y, u, v) : "M" + point(u, v) + curve(u, v, x, y)]);
  });
  return list;
}

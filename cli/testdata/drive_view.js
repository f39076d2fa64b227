// Drives a page of graphrun view in a browser, and writes the failures into the element "result".
"use strict";
const failures = [], check = (holds, text) => { if (!holds) failures.push(text); };
const click = (x, at) => x.dispatchEvent(new MouseEvent("click", { bubbles: true, ...at }));
const key = (x, k) => x.dispatchEvent(new KeyboardEvent("keydown", { key: k, bubbles: true, cancelable: true }));
// A browser without a window may paint no frame.
const frame = () => new Promise(done => setTimeout(() => { pending = false; paint(); done(); }, 20));

// Boxes and frames of one group are disjoint, and in the frame of the group.
function checkPlaces(what) {
  const places = new Map(visible.map(v => [v.i, v])), slack = .5;
  for (const v of visible) {
    const g = parentOf.get(v.i), f = g === whole ? { x: 0, y: 0, w: all.w, h: all.h } : places.get(g.id);
    check(f && v.x > f.x - slack && v.y > f.y - slack && v.x + v.w < f.x + f.w + slack && v.y + v.h < f.y + f.h + slack,
      what + ": item " + v.i + " is outside its frame");
    for (const u of visible) {
      check(u === v || parentOf.get(u.i) !== g || u.x + u.w < v.x + slack || v.x + v.w < u.x + slack ||
        u.y + u.h < v.y + slack || v.y + v.h < u.y + slack, what + ": items " + u.i + " and " + v.i + " overlap");
    }
  }
}
async function drive() {
  await frame();
  checkPlaces("at first");
  const breadth = data.horizontal ? room.height / all.h : room.width / all.w;
  check(seen.scale >= Math.min(.9, Math.max(.55, breadth)), "the first boxes are too small: " + seen.scale);
  const first = visible.length, group = visible.find(v => isGroup(v.i) && !v.frame);
  check(group, "nothing is folded");
  click(shown.get(group.i).querySelector("text"));
  check(visible.length > first && groupOf(group.i).open, "a click does not open a group");
  checkPlaces("open");
  check(document.activeElement.getAttribute("aria-expanded") === "true", "the focus is not on the open group");
  click(visible.find(v => v.i === group.i).frame.querySelector("text"));
  check(visible.length === first && !groupOf(group.i).open, "a click on its label does not fold it");
  key(shown.get(group.i), "Enter");
  check(groupOf(group.i).open, "Enter does not open a group");
  let random = 1;
  for (let k = 0; k < 40; k++) {
    random = random * 48271 % 2147483647;
    const groups = visible.filter(v => isGroup(v.i));
    toggle(groups[random % groups.length].i);
    checkPlaces("after " + k + " random clicks");
  }
  by("fold").click();
  check(visible.every(v => !v.frame), "groups are open after Fold all");
  by("unfold").click();
  check(visible.filter(v => !v.frame).length === data.boxes.length, "groups are folded after Open all");
  checkPlaces("all open");
  by("fold").click();

  const hidden = data.boxes.findIndex((_, i) => !visible.some(v => v.i === i));
  by("search").value = nameOf(data.boxes[hidden]).toUpperCase();
  by("search").dispatchEvent(new Event("input"));
  check(/^[1-9]\d* found$/.test(by("found").textContent), "search: " + by("found").textContent);
  check(world.querySelector(".group.hit"), "no folded group shows a hit");
  const wanted = found[0];
  key(by("search"), "Enter");
  await frame();
  check(picked === wanted && visible.some(v => v.i === wanted), "Enter does not show the result");
  const r = shown.get(wanted).getBoundingClientRect(), s = stage.getBoundingClientRect();
  check(r.width > 0 && r.left >= s.left && r.right <= s.right && r.top >= s.top && r.bottom <= s.bottom, "the result is out of sight");
  check(by("panel").textContent.includes(nameOf(data.boxes[wanted])), "the panel has no details");
  key(by("search"), "Escape");
  check(!world.querySelector(".hit"), "Escape leaves hits");

  const step = visible.find(v => !isGroup(v.i) && data.boxes[v.i].explain.length);
  click(shown.get(step.i).querySelector("text"));
  check(by("panel").querySelector("pre"), "a click on a step shows no explanation");
  check(world.querySelector(".value.near"), "its lines are not marked");
  key(document.body, "ArrowDown");
  check(picked !== step.i, "an arrow key does not go to the next box");
  key(document.body, "Escape");
  check(picked === null && by("panel").textContent.includes(data.title), "Escape does not show the summary");

  fit();
  await frame();
  check(by("corner").hidden, "the overview is shown beside the whole picture");
  zoom(3);
  await frame();
  const before = { ...seen }, map = by("map").getBoundingClientRect(), place = stage.getBoundingClientRect();
  check(map.width > 0 && (map.left >= place.right || map.top >= place.bottom), "the overview covers the picture");
  by("map").dispatchEvent(new PointerEvent("pointerdown", { clientX: map.left + map.width / 2, clientY: map.bottom - 4, pointerId: 1 }));
  check(seen.y > before.y, "a click on the overview does not move the view");
  fit();
  await frame();
  check(world.getBoundingClientRect().height <= s.height + 1, "Fit does not show all");

  const box = shown.get(visible.find(v => !v.frame).i), left = box.getBoundingClientRect().left, inside = world.getAttribute("transform");
  show({ ...seen, x: seen.x + 20 / seen.scale });
  await frame();
  check(Math.abs(left - 20 - box.getBoundingClientRect().left) < 1, "a short move does not move the picture");
  check(world.getAttribute("transform") === inside, "a short move paints the picture again");
  zoom(1.3);
  await frame();
  await new Promise(done => setTimeout(done, 400));
  check(painted.scale === seen.scale, "the picture is not sharp after a zoom");

  dispatchEvent(new Event("beforeprint"));
  check(chunks.every(c => c.g.style.visibility === "") && svg.getAttribute("viewBox").endsWith(all.w + " " + all.h), "the print is not whole");
  dispatchEvent(new Event("afterprint"));
  check(!svg.hasAttribute("viewBox"), "the page stays as it was printed");
  by("theme").click(); by("theme").click();
  check(performance.getEntriesByType("resource").length === 0, "the page loads something");
}
drive().catch(e => failures.push(String(e.stack || e))).finally(() => {
  const p = document.createElement("pre");
  p.id = "result";
  p.textContent = JSON.stringify(failures.concat(window.seenErrors).slice(0, 20));
  document.body.append(p);
});

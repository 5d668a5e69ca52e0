"use strict";
const kPeriodMs = 2000, kMostRows = 10, kSlowRows = 8;
const at = id => document.getElementById(id);
let before = null, latest = null, pointer = null, isWhole = false, token = sessionStorage.getItem("gemmd-token") || "";

// ---- counters of the server; rates are those since the look before
const family = (look, name) => look.families[name] || [];
const matches = (sample, labels) => Object.entries(labels).every(([k, v]) => sample.labels[k] === v);
const sum = (look, name, labels = {}) =>
  family(look, name).filter(s => matches(s, labels)).reduce((all, s) => all + s.value, 0);
const rate = (now, name, labels = {}) =>
  before === null ? 0 : Math.max(0, sum(now, name, labels) - sum(before, name, labels)) / (now.seconds - before.seconds);
const values = (look, name, label) => [...new Set(family(look, name).map(s => s.labels[label]))];

// ---- as people read it
const count = x => Math.round(x).toLocaleString("en");
const number = x => x === null || !isFinite(x) ? "–" : x === 0 ? "0" : x >= 100 ? count(x) : +x.toPrecision(3) + "";
function seconds(x) {
  if (x === null || !isFinite(x)) return "–";
  if (x === 0) return "0 s";
  return x >= 1 ? +x.toPrecision(3) + " s" : x >= 1e-3 ? +(x * 1e3).toPrecision(3) + " ms" : +(x * 1e6).toPrecision(3) + " µs";
}
const percent = x => (100 * x).toFixed(1) + " %";
function bytes(x) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; x >= 1024 && i < units.length - 1; ++i) x /= 1024;
  return (i === 0 ? x : x.toFixed(1)) + " " + units[i];
}
function age(x) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]].map(([unit, name]) => {
    const whole = Math.floor(x / unit);
    x -= whole * unit;
    return [whole, name];
  });
  const first = parts.findIndex(([whole]) => whole > 0);
  return first < 0 ? "0 s" : parts.slice(first, first + 2).filter(([whole]) => whole > 0).map(([whole, name]) => `${whole} ${name}`).join(" ");
}
const two = x => String(x).padStart(2, "0");
// The browser's time of a moment of the server's clock.
const date = (now, x) => new Date(now.received + 1000 * (x - now.seconds));
const clock = d => `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;

// ---- tables; names of clients' choosing are text and nothing else
function row(...cells) {
  const line = document.createElement("tr");
  for (const [i, cell] of cells.entries()) {
    const place = document.createElement(i === 0 ? "th" : "td");
    if (i === 0) place.scope = "row";
    if (cell instanceof Node) {
      place.append(cell);
      place.className = "whole";
    } else {
      place.textContent = place.title = cell;
    }
    line.append(place);
  }
  return line;
}
function show(id, rows) {
  const columns = [...at(id).parentElement.querySelectorAll("thead th")].map(each => each.textContent);
  if (rows.length === 0) {
    const none = row("none");
    none.firstChild.className = "none";
    none.firstChild.colSpan = columns.length || 1;
    rows = [none];
  }
  for (const line of rows) {
    for (const [i, cell] of [...line.children].entries()) if (i > 0 && columns[i]) cell.dataset.label = columns[i];
  }
  at(id).replaceChildren(...rows);
}
function bar(parts, whole, label) {
  const box = document.createElement("div");
  box.className = "bar";
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", label);
  box.title = label;
  for (const [colour, part] of parts) {
    const piece = document.createElement("i");
    piece.className = colour;
    piece.style.width = whole > 0 ? 100 * part / whole + "%" : "0";
    box.append(piece);
  }
  return box;
}
function code(text) {
  const made = document.createElement("code");
  made.textContent = text;
  return made;
}
// The samples of a counter of those that did most in the last 2 seconds, then since the start.
function busiest(now, name, work) {
  const all = family(now, name).filter(s => s.value > 0 && (s.labels.outcome || "ok") === "ok");
  const ranked = all.map(s => ({labels: s.labels, total: s.value, now: rate(now, work, identity(s.labels))}));
  return ranked.sort((x, y) => y.now - x.now || y.total - x.total).slice(0, kMostRows);
}
const identity = labels => Object.fromEntries(Object.entries(labels).filter(([name]) => name !== "outcome"));

// ---- curves
function svg(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
// Scales: the levels that have a line, and where a value lies between the bottom, 0, and the top, 1.
// Levels are apart by 1, 2 or 5 times a power of ten, and at least by `least`.
function linear(all, least = 0) {
  const most = Math.max(...all, 0) || 1, power = 10 ** Math.floor(Math.log10(most / 4));
  const each = Math.max(least, [1, 2, 5, 10].map(x => x * power).find(x => most / x <= 4));
  const top = each * Math.ceil(most / each);
  return {levels: [...Array(Math.round(top / each) + 1).keys()].map(i => +(i * each).toPrecision(6)), place: x => x / top};
}
// Powers of ten, because a median and a p99 are far apart; what is 0 lies at the bottom.
function logarithmic(all) {
  const some = all.filter(x => x > 0), of = some.length ? some : [1e-3];
  const low = Math.floor(Math.log10(Math.min(...of))), high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...of))));
  const levels = [...Array(high - low + 1).keys()].map(i => +(10 ** (low + i)).toPrecision(3));
  return {levels, place: x => x > 0 ? (Math.log10(x) - low) / (high - low) : 0};
}
const kTimeSteps = [10, 30, 60, 120, 300, 600, 900, 1800];
const kLeft = 64, kRight = 10, kTop = 8, kBottom = 22;
// `curve`: its points, and the moment `from` which it is drawn; `lines`: [colour, name, values];
// `cursor`: a moment that the mouse is at, or null; `scale`: linear() or the like.
function chart(id, now, curve, lines, text, scale, cursor) {
  const box = at(id), width = box.clientWidth, height = box.clientHeight, {begin, end} = curve.points;
  const from = curve.from, to = now.seconds, most = Math.max(...lines.flatMap(line => line[2]), 0);
  const x = t => kLeft + (width - kLeft - kRight) * (t - from) / (to - from);
  const {levels, place} = scale(lines.flatMap(line => line[2])), y = v => height - kBottom - (height - kBottom - kTop) * place(v);
  const drawn = [];
  for (const [i, level] of levels.entries()) {
    drawn.push(svg("line", {x1: kLeft, x2: width - kRight, y1: y(level), y2: y(level), class: i ? "grid-line" : "axis"}),
      svg("text", {x: kLeft - 6, y: y(level) + 4, "text-anchor": "end"}, text(level)));
  }
  const apart = kTimeSteps.find(s => (width - kLeft) * s / (to - from) >= 62) || 3600;
  const start = date(now, from), into = start.getMinutes() * 60 + start.getSeconds() + start.getMilliseconds() / 1000;
  for (let t = from + apart - into % apart; t < to; t += apart) {
    drawn.push(svg("line", {x1: x(t), x2: x(t), y1: kTop, y2: height - kBottom, class: "grid-line"}));
    const label = clock(new Date(date(now, t).getTime() + 500)).slice(0, apart < 60 ? 8 : 5), half = 3.5 * label.length;
    if (x(t) < width - half) drawn.push(svg("text", {x: x(t), y: height - 6, "text-anchor": "middle"}, label));
  }
  for (const [colour, , of] of lines) {
    let path = "", isDrawing = false;
    for (let i = 0; i < of.length; ++i) {
      const isThere = of[i] !== null && end[i] > from;
      if (isThere) path += `${isDrawing ? "L" : "M"}${x(Math.max(from, begin[i])).toFixed(1)} ${y(of[i]).toFixed(1)}H${x(end[i]).toFixed(1)}`;
      isDrawing = isThere;
    }
    drawn.push(svg("path", {d: path, class: colour}));
  }
  const last = end.length - 1, found = cursor === null ? last : end.findIndex((e, i) => begin[i] <= cursor && cursor < e);
  if (cursor !== null) drawn.push(svg("line", {x1: x(cursor), x2: x(cursor), y1: kTop, y2: height - kBottom, class: "cursor"}));
  box.replaceChildren(...drawn);
  const told = lines.map(([colour, name, of]) => {
    const entry = document.createElement("span"), key = document.createElement("b");
    key.className = "key " + colour;
    entry.append(key, `${name} ${text(found < 0 ? null : of[found])}`);
    return entry;
  });
  const when = document.createElement("span"), highest = document.createElement("span");
  when.textContent = cursor === null ? "now:" : clock(date(now, cursor)) + ":";
  highest.textContent = `highest ${text(most)}`;
  at(id + "-text").replaceChildren(when, ...told, highest);
  box.setAttribute("aria-label", `${box.parentElement.querySelector("h2").textContent}: ${at(id + "-text").textContent}`);
}
const latestOf = list => list.length ? list[list.length - 1] : null;
// The bucket of the server's histogram in which a quantile lies: between its bounds it is a guess.
function bucket(now, x) {
  const own = family(now, "gemmd_request_duration_seconds")[0];
  if (x === null || !own) return "";
  const i = own.bounds.findIndex(bound => x <= bound);
  if (i < 0 || x === own.bounds[own.bounds.length - 1]) return `at least ${seconds(own.bounds[own.bounds.length - 1])}`;
  if (i === 0) return `at most ${seconds(own.bounds[0])}`;
  const [least, unit] = seconds(own.bounds[i - 1]).split(" "), most = seconds(own.bounds[i]);
  return `in ${least}${most.endsWith(" " + unit) ? "" : " " + unit}–${most}`;
}
// Of a server that is younger than an hour, its life.
function spanOf(now) {
  const asked = document.querySelector("#range input:checked").value;
  return asked === "hour" ? Math.min(3600, Math.max(60, now.server.uptime_seconds)) : 300;
}
function showCurves() {
  const now = latest, span = spanOf(now);
  const {points} = now.history[span <= 300 ? "recent" : "hour"];
  const curve = {points, from: now.seconds - span};
  const giga = points.flops.map(flops => flops / 1e9);
  const cursorOf = id => pointer && pointer.id === id ? now.seconds - (1 - pointer.part) * span : null;
  chart("rates", now, curve, [["a", "OK", points.ok], ["b", "not OK", points.not_ok]], number, linear, cursorOf("rates"));
  chart("times", now, curve, [["a", "median", points.p50], ["d", "p99", points.p99], ["b", "backlog", points.backlog]], seconds, logarithmic, cursorOf("times"));
  chart("work", now, curve, [["c", "done", giga]], number, linear, cursorOf("work"));
  chart("flights", now, curve, [["d", "in flight", points.in_flight]], number, all => linear(all, 1), cursorOf("flights"));
}

function showSlow(now) {
  const group = {compute: "a", copy_in: "b", copy_out: "b", decode: "c", receive: "c", encode: "c", queue: "d", admission: "d"};
  at("more").hidden = now.slow.length <= kSlowRows;
  at("more").textContent = isWhole ? `the last ${kSlowRows}` : `all ${now.slow.length}`;
  show("slow", now.slow.slice(0, isWhole ? now.slow.length : kSlowRows).map(slow => {
    const parts = Object.entries(slow.exposed_us).map(([stage, us]) => [group[stage] || "e", us]);
    const told = Object.entries(slow.exposed_us).filter(([, us]) => us > 0).map(([stage, us]) => `${stage} ${seconds(us / 1e6)}`).join(", ");
    return row(clock(date(now, slow.finish)), seconds(slow.total_us / 1e6), bar(parts, slow.total_us, told), `${slow.m} x ${slow.n} x ${slow.k}`, slow.types,
      slow.tenant || "(none)", slow.peer || "–", slow.kernel, String(slow.request_id), code(slow.traceparent.split("-")[1] || "–"));
  }));
}

function showNow(now) {
  if (before !== null && now.server.uptime_seconds < before.server.uptime_seconds) before = null;
  const {server} = now, {points} = now.history.recent;
  at("about").textContent = `${server.version} on ${server.host || "a host without a name"}, serves ${server.address}, up ${age(server.uptime_seconds)}`;
  document.title = `gemmd ${server.host}`;
  at("state").textContent = sum(now, "gemmd_draining") ? "draining" : "serving";
  const ok = latestOf(points.ok), bad = latestOf(points.not_ok), p50 = latestOf(points.p50), p99 = latestOf(points.p99);
  const finished = sum(now, "gemmd_requests_finished_total"), good = sum(now, "gemmd_requests_finished_total", {code: "OK"});
  const wrong = sum(now, "gemmd_verified_products_total", {result: "wrong"}), right = sum(now, "gemmd_verified_products_total", {result: "right"});
  const facts = {rate: [number(ok === null ? null : ok + bad), `${count(finished)} so far`], failed: [number(bad), `${count(finished - good)} so far`],
    p50: [seconds(p50), bucket(now, p50)], p99: [seconds(p99), bucket(now, p99)],
    flops: [number(ok === null ? null : latestOf(points.flops) / 1e9), ""],
    flight: [count(sum(now, "gemmd_requests_in_flight")), `connections: ${count(sum(now, "gemmd_connections"))}`],
    waiting: [count(sum(now, "gemmd_waiting_requests"))], wrong: [count(wrong), `of ${count(right + wrong)} verified`]};
  for (const [id, [value, more]] of Object.entries(facts)) {
    at(id).textContent = value;
    if (more !== undefined) at(id + "-more").textContent = more;
  }
  at("failed").className = bad > 0 ? "bad" : "";
  at("wrong").className = wrong > 0 ? "bad" : "";
  showCurves();
  show("products", busiest(now, "gemmd_product_requests_total", "gemmd_product_compute_seconds_total").map(({labels, total}) =>
    row(labels.shape.replace(/x/g, " x "), labels.types, number(rate(now, "gemmd_product_requests_total", labels)), number(rate(now, "gemmd_product_flops_total", labels) / 1e9),
      percent(rate(now, "gemmd_product_compute_seconds_total", labels)), count(total))));
  show("kernels", busiest(now, "gemmd_kernel_requests_total", "gemmd_kernel_compute_seconds_total").map(({labels, total}) =>
    row(labels.kernel, number(rate(now, "gemmd_kernel_requests_total", labels)), number(rate(now, "gemmd_kernel_flops_total", labels) / 1e9),
      percent(rate(now, "gemmd_kernel_compute_seconds_total", labels)), count(total))));
  show("tenants", busiest(now, "gemmd_tenant_requests_total", "gemmd_tenant_compute_seconds_total").map(({labels: {tenant}, total}) =>
    row(tenant, number(rate(now, "gemmd_tenant_requests_total", {tenant})), number(rate(now, "gemmd_tenant_requests_total", {tenant, outcome: "failed"})),
      percent(rate(now, "gemmd_tenant_compute_seconds_total", {tenant})), count(total))));
  show("devices", values(now, "gemmd_device_info", "device").map(device => {
    const memory = kind => sum(now, "gemmd_device_memory_bytes", {device, kind});
    const parts = [["a", memory("resident")], ["b", memory("workspace")], ["c", memory("in_flight")]];
    const taken = parts.reduce((x, [, y]) => x + y, 0), whole = taken + memory("free");
    return row(device, bar(parts, whole, `${percent(taken / whole)} of ${bytes(whole)} taken`), bytes(memory("free")),
      count(sum(now, "gemmd_queue_requests", {device})), seconds(sum(now, "gemmd_queue_backlog_seconds", {device})),
      number(rate(now, "gemmd_launches_total", {device})));
  }));
  const stages = family(now, "gemmd_stage_duration_seconds").map(stage => {
    const old = before && family(before, "gemmd_stage_duration_seconds").find(s => s.labels.stage === stage.labels.stage);
    const times = stage.count - (old ? old.count : 0);
    return [stage.labels.stage, before ? times / (now.seconds - before.seconds) : 0, (stage.sum - (old ? old.sum : 0)) / times];
  });
  show("stages", stages.filter(([, times]) => times > 0).map(([name, times, mean]) => row(name, number(times), seconds(mean))));
  const operands = (name, labels) => sum(now, "gemmd_operand" + name, labels);
  show("operands", [
    row("matrices", `${count(operands("s"))}, with ${bytes(operands("_bytes"))}`),
    row("taken", `${bytes(operands("_reserved_bytes"))} of ${bytes(operands("_limit_bytes"))}`),
    row("found", number(rate(now, "gemmd_operand_lookups_total", {result: "hit"})) + "/s"),
    row("not found", number(rate(now, "gemmd_operand_lookups_total", {result: "miss"})) + "/s"),
    row("evicted", `${number(rate(now, "gemmd_operand_evictions_total"))}/s, ${count(operands("_evictions_total"))} so far`)]);
  show("refusals", values(now, "gemmd_requests_refused_total", "cause").filter(cause => sum(now, "gemmd_requests_refused_total", {cause}) > 0).map(cause =>
    row(cause, number(rate(now, "gemmd_requests_refused_total", {cause})), count(sum(now, "gemmd_requests_refused_total", {cause})))));
  showSlow(now);
  before = now;
}

async function look() {
  try {
    const headers = token ? {Authorization: "Bearer " + token} : {};
    const answer = await fetch("console.json", {headers, cache: "no-store"});
    at("login").hidden = answer.ok;
    if (answer.ok) {
      latest = {...await answer.json(), received: Date.now()};
      showNow(latest);
    } else {
      at("state").textContent = "not shown: " + (await answer.text()).trim();
    }
  } catch (error) {
    at("state").textContent = "the server does not answer";
    before = null;
  }
  setTimeout(look, kPeriodMs);
}
at("login").addEventListener("submit", event => {
  event.preventDefault();
  token = at("token").value;
  sessionStorage.setItem("gemmd-token", token);
});
at("more").addEventListener("click", () => {
  isWhole = !isWhole;
  if (latest) showSlow(latest);
});
at("range").addEventListener("change", () => latest && showCurves());
addEventListener("resize", () => latest && showCurves());
for (const id of ["rates", "times", "work", "flights"]) {
  at(id).addEventListener("pointermove", event => {
    if (!latest) return;
    const box = at(id).getBoundingClientRect(), part = (event.clientX - box.left - kLeft) / (box.width - kLeft - kRight);
    pointer = part < 0 || part > 1 ? null : {id, part};
    showCurves();
  });
  at(id).addEventListener("pointerleave", () => {
    pointer = null;
    if (latest) showCurves();
  });
}
look();

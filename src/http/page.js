"use strict";
// Everything shown goes through textContent: names of groups and reasons come from outside.
const $ = id => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const TONES = {
  "live": "good", "catching-up": "busy", "connecting": "busy", "standby": "busy", "stopping": "busy",
  "waiting-for-node": "wait", "waiting-for-redis": "wait", "waiting-for-chain-api": "wait", "paused-stream-full": "wait",
  "fork-too-deep": "bad", "failed": "bad",
};

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const number = n => n == null ? "–" : whole.format(n);
const count = (n, what) => number(n) + " " + what + (n === 1 ? "" : "s");
const short = n => n == null ? "–" : Math.abs(n) < 100000 ? number(n) : compact.format(n);
const rate = n => n > 0 && n < 10 ? n.toFixed(1) : short(n);

function duration(seconds) {
  if (seconds == null) return "–";
  const s = Math.floor(seconds);
  if (s < 10 && seconds > 0) return seconds.toFixed(1) + " s";
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + s % 60 + " s";
  if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min";
  return Math.floor(s / 86400) + " d " + Math.floor(s % 86400 / 3600) + " h";
}

function bytes(n) {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (n >= size) return (n / size).toFixed(1) + " " + unit;
  }
  return n + " bytes";
}

const time = text => text ? text.replace("T", " ").replace(/\.\d+Z$/, " UTC") : "";

function text(id, value) {
  const node = $(id);
  if (node.textContent !== value) node.textContent = value;
}

function bar(id, share) {
  $(id).style.width = Math.max(0, Math.min(1, share || 0)) * 100 + "%";
}

// A curve of values, one a second, the newest at the right.
function plot(id, values) {
  const svg = $(id), width = 300, height = 44;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  const known = values.map(v => v == null ? 0 : v);
  const top = Math.max(1, ...known);
  // All five minutes once they are there, at least one from the beginning.
  const span = Math.max(60, known.length) - 1;
  const points = known.map((v, i) => {
    const x = width - (known.length - 1 - i) * width / span;
    return x.toFixed(1) + "," + (height - 1 - v / top * (height - 4)).toFixed(1);
  });
  let curve = svg.querySelector(".curve");
  if (!curve) {
    for (const name of ["area", "curve"]) {
      const path = document.createElementNS(SVG, "path");
      path.setAttribute("class", name);
      svg.append(path);
    }
    svg.append(document.createElementNS(SVG, "title"));
    curve = svg.querySelector(".curve");
  }
  const line = points.length > 1 ? "M" + points.join("L") : "";
  curve.setAttribute("d", line);
  const first = points.length ? points[0].split(",")[0] : 0;
  svg.querySelector(".area").setAttribute("d", line && `${line}L${width},${height}L${first},${height}Z`);
  svg.querySelector("title").textContent = "the last five minutes, at most " + short(Math.max(0, ...known));
}

// Rows of cells; a cell is a text, or {text, class} or {share}.
function table(id, heads, rows, none) {
  const all = [];
  if (heads.length && rows.length) {
    const row = document.createElement("tr");
    for (const head of heads) row.append(cell("th", head));
    all.push(row);
  }
  for (const cells of rows) {
    const row = document.createElement("tr");
    for (const content of cells) row.append(cell("td", content));
    all.push(row);
  }
  if (!rows.length) {
    const row = document.createElement("tr");
    row.className = "nothing";
    row.append(cell("td", none));
    all.push(row);
  }
  $(id).replaceChildren(...all);
}

function cell(tag, content) {
  const node = document.createElement(tag);
  if (typeof content !== "object") {
    node.textContent = content;
  } else if ("share" in content) {
    node.className = "share" + (content.idle ? " idle" : "");
    const bar = document.createElement("div");
    bar.style.width = content.share * 100 + "%";
    node.append(bar);
  } else {
    node.className = content.class;
    node.textContent = content.text;
  }
  return node;
}

const num = (value, more) => ({ text: value, class: "number " + (more || "") });
const id = value => ({ text: value, class: "id" });

function show(s) {
  const tone = !s.healthy && s.state in { "live": 1, "catching-up": 1, "connecting": 1 } ? "wait" : TONES[s.state] || "unknown";
  $("header").className = tone;
  document.title = s.state + " · parser";
  text("state", s.state);
  text("since", "for " + duration((Date.parse(s.updated) - Date.parse(s.since)) / 1000));
  text("reason", s.health_reason || s.reason || "");

  text("lag", duration(s.lag_seconds));
  text("lag-blocks", s.lag_blocks == null ? "" : count(s.lag_blocks, "block") + " behind the node's head");
  plot("lag-plot", s.history.lag_seconds);
  text("block", number(s.block));
  text("head", s.head == null ? "" : "the node's head is " + number(s.head));
  bar("block-bar", s.block && s.head ? s.block / Math.max(s.head, s.block) : 0);
  text("block-time", time(s.block_time));
  text("blocks", rate(s.blocks_per_second));
  text("left", s.seconds_left == null ? "" : duration(s.seconds_left) + " left");
  plot("blocks-plot", s.history.blocks);
  text("events", rate(s.events_per_second));
  const events = s.totals.events.reduce((sum, of) => sum + of.count, 0);
  text("events-total", short(events) + " in this run");
  plot("events-plot", s.history.events);

  const most = s.stream.max_entries;
  text("stream", short(s.stream.length));
  text("stream-max", most ? "entries of at most " + short(most) : "entries, without a limit");
  bar("stream-bar", most ? s.stream.length / most : 0);
  text("stream-held", s.stream.held_by == null ? "" : "kept for the group " + s.stream.held_by);
  const undecoded = s.totals.undecoded.filter(of => of.count);
  text("undecoded", short(undecoded.reduce((sum, of) => sum + of.count, 0)));
  text("undecoded-why", undecoded.map(of => short(of.count) + " " + of.name).join(", "));

  // Waiting for the node is no work: its bar is not what the others are measured by.
  const busiest = Math.max(0.001, ...s.stages.map(of => of.stage === "receive" ? 0 : of.busy));
  table("stages", ["stage", num("mean"), num("a second"), ""], s.stages.map(of => [
    of.stage, num(of.mean_ms.toFixed(of.mean_ms < 10 ? 2 : 0) + " ms"), num(rate(of.per_second)), 
    { share: Math.min(1, of.busy / busiest), idle: of.stage === "receive" },
  ]).concat([["in the queues", num(""), num(short(s.queues.decode + s.queues.publish)), ""]]), "");
  table("groups", ["group", num("lag"), num("pending"), num("oldest pending"), num("idle")], s.groups.map(of => [
    of.name,
    num(count(of.lag_blocks, "block"), of.lag_blocks > 1000 ? "warn" : ""),
    num(number(of.pending)),
    num(of.oldest_pending_block == null ? "–" : "block " + number(of.oldest_pending_block)),
    num(of.idle_ms == null ? "–" : duration(of.idle_ms / 1000)),
  ]), "no consumer group reads the stream");
  const top = Math.max(1, ...s.contracts.map(of => of.events));
  table("contracts", [], s.contracts.slice(0, 12).map(of => [
    of.contract, num(short(of.events)), { share: of.events / top },
  ]), "no events yet");
  const letters = s.dead_letters;
  text("letters-total", letters.length == null ? "" : number(letters.length) + " in the stream; those of this run:");
  table("letters", ["contract", "reason", num("count")], letters.of.slice(0, 12).map(of => [
    of.contract, of.reason, num(number(of.count)),
  ]), "none in this run");
  table("abis", ["contract", num("block"), num("size")], s.abi_changes.slice(0, 10).map(of => [
    of.contract, num(number(of.block)), num(of.bytes ? bytes(of.bytes) : "taken away"),
  ]), "none seen in this run");
  text("forks-total", s.totals.forks ? number(s.totals.forks) + " in this run; the last ones:" : "");
  table("forks", ["above block", num("taken back"), "seen"], s.forks.slice(0, 10).map(of => [
    number(of.common), num(count(of.removed, "block")), time(new Date(of.seen_ms).toISOString()),
  ]), "none in this run");
  table("totals", [], [
    ["blocks published", num(number(s.totals.blocks))],
    ...s.totals.events.filter(of => of.count).map(of => ["events of kind " + of.name, num(number(of.count))]),
    ["received from the node", num(bytes(s.totals.received_bytes))],
    ["published to Redis", num(bytes(s.totals.published_bytes))],
    ["entries trimmed", num(number(s.stream.trimmed))],
    ["trimmed unread", num(number(s.stream.forced), s.stream.forced ? "alarm" : "")],
    ["reconnected to the node, to Redis", num(number(s.totals.node_reconnects) + ", " + number(s.totals.redis_reconnects))],
    ["last irreversible block", num(number(s.last_irreversible))],
  ], "");
  text("footer", [
    "parser " + s.version, "process " + s.pid + " on " + s.host, "started " + time(s.started),
    s.endpoint && "node " + s.endpoint, s.chain_id && "chain " + s.chain_id,
  ].filter(Boolean).join(" · "));
}

let answered = null;
async function update() {
  try {
    const answer = await fetch("state.json", { cache: "no-store" });
    if (!answer.ok) throw new Error("status " + answer.status);
    show(await answer.json());
    answered = new Date();
    document.body.className = "";
    $("offline").hidden = true;
  } catch (error) {
    document.body.className = "offline";
    $("offline").hidden = false;
    text("offline", "The parser does not answer" +
      (answered ? ": what is shown is of " + time(answered.toISOString()) : "") + " (" + error.message + ")");
  }
  setTimeout(update, 1000);
}
update();

"use strict";
// Draws what stands in the JSON beside each figure, and sorts tables. Plotly is in the page, too.

const INK = "#333333";
const CONFIG = {
  responsive: true, displaylogo: false,
  modeBarButtons: [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
};
const AXIS = { automargin: true, linecolor: "#999999", ticks: "outside", tickcolor: "#999999", zeroline: false };
const FONT = { family: 'system-ui, "DejaVu Sans", Arial, sans-serif', size: 13, color: INK };
const MOST_ROWS = 256;
const MOST_BINS = 1100;
const MOST_ARROWS = 400;
const TEN = Math.log(10);
const SECONDS = { ps: 1e-12, ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1 };
const TIME = /^([0-9.]+) (ps|ns|us|ms|s)$/;

const buffer = (text) => Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0)).buffer;
const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const figures = (value) => String(Number(value.toPrecision(10)));
const whole = (value) => value.toLocaleString("en-US");

function sized(bytes) {
  let power = 0;
  while (bytes >= 1024 && power < 5) {
    bytes /= 1024;
    power += 1;
  }
  return `${Number(bytes.toPrecision(4))} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB"][power]}`;
}

function rankStep(count, most) {
  let step = 1;
  while (count / step > most) step *= 2;
  return step;
}

// ------------------------------------------------------------------------------------------------------- timeline

class Timeline {
  constructor(div, content) {
    this.div = div;
    this.content = content;
    const { spans, lives, messages } = content;
    this.rank = new Uint32Array(buffer(spans.rank));
    this.label = new Uint32Array(buffer(spans.label));
    this.start = new Float64Array(buffer(spans.start));
    this.stop = new Float64Array(buffer(spans.stop));
    this.livesOf = new Uint32Array(buffer(lives.rank));
    this.begins = new Float64Array(buffer(lives.start));
    this.ends = new Float64Array(buffer(lives.stop));
    this.source = new Uint32Array(buffer(messages.source));
    this.dest = new Uint32Array(buffer(messages.dest));
    this.size = new Float64Array(buffer(messages.bytes));
    this.sent = new Float64Array(buffer(messages.sent));
    this.arrived = new Float64Array(buffer(messages.arrived));
    this.busy = false;
    Plotly.newPlot(div, this.traces(), this.layout(), CONFIG).then(() => {
      this.refresh();
      div.on("plotly_relayout", () => this.refresh());
    });
  }

  traces() {
    const { content } = this;
    const colours = [...content.colours, content.work];
    const steps = colours.flatMap((colour, at) => [
      [at / colours.length, colour],
      [(at + 1) / colours.length, colour],
    ]);
    const picture = {
      type: "heatmap", z: [[0]], zmin: -0.5, zmax: colours.length - 0.5, colorscale: steps, showscale: false,
      hovertemplate: "%{customdata}<extra></extra>", hoverongaps: false, showlegend: false,
      ygap: content.ranks <= 64 ? 2 : 0,
    };
    const arrows = {
      type: "scatter", mode: "lines+markers", x: [], y: [], name: "messages", hoverinfo: "text",
      line: { color: "rgba(40,40,40,0.55)", width: 1 }, showlegend: content.messages.count > 0,
      marker: { symbol: "arrow", angleref: "previous", color: INK, size: [] },
    };
    const keys = [...content.calls, "own work"].map((name, at) => ({
      type: "scatter", mode: "markers", x: [null], y: [null], name: escaped(name), hoverinfo: "skip",
      marker: { symbol: "square", size: 13, color: colours[at], line: { color: "#bbbbbb", width: 1 } },
    }));
    const marks = content.marks.map((mark) => ({
      type: "scatter", mode: "markers", x: mark.x, y: mark.y, text: mark.text.map(escaped), name: escaped(mark.kind),
      hoverinfo: "text",
      marker: { symbol: mark.symbol, color: mark.colour, size: mark.size, line: { color: mark.line, width: mark.width } },
    }));
    return [picture, arrows, ...keys, ...marks];
  }

  layout() {
    const { content } = this;
    return {
      height: Math.min(Math.max(190 + 26 * content.ranks, 280), 720), font: FONT, dragmode: "zoom",
      margin: { l: 60, r: 20, t: 20, b: 50 }, plot_bgcolor: "#ffffff", hovermode: "closest",
      legend: { itemclick: false, itemdoubleclick: false, x: 1.01, y: 1 },
      xaxis: { ...AXIS, title: { text: `virtual time [${content.unit}]` }, range: [0, content.end], showgrid: false },
      yaxis: { ...AXIS, title: { text: "rank" }, range: [content.ranks - 0.5, -0.5], showgrid: false, tickformat: "d" },
      shapes: content.across.map((line) => ({
        type: "line", x0: line.at, x1: line.at, y0: 0, y1: 1, yref: "paper", line: { color: line.colour, width: 2 },
      })),
    };
  }

  refresh() {
    if (this.busy) return;
    this.busy = true;
    const { xaxis, yaxis } = this.div._fullLayout;
    const [left, right] = [Math.max(xaxis.range[0], 0), Math.min(xaxis.range[1], this.content.end)];
    const rows = [...yaxis.range].sort((a, b) => a - b);
    const first = Math.min(Math.max(Math.floor(rows[0] + 0.5), 0), this.content.ranks - 1);
    const last = Math.max(Math.min(Math.ceil(rows[1] - 0.5), this.content.ranks - 1), first);
    const drawn = this.raster(left, Math.max(right, left + this.content.end * 1e-9), first, last);
    const arrows = this.arrows(left, right, first, last, drawn.dy);
    const data = {};
    for (const key of ["z", "customdata", "x0", "dx", "y0", "dy"]) data[key] = [drawn[key], undefined];
    data.x = [undefined, arrows.x];
    data.y = [undefined, arrows.y];
    data.text = [undefined, arrows.text];
    data["marker.size"] = [undefined, arrows.heads];
    const layout = { "yaxis.dtick": rankStep(last - first + 1, 16), "yaxis.tick0": 0 };
    Plotly.update(this.div, data, layout, [0, 1]).then(() => { this.busy = false; });
  }

  // How long each row was in which call in each slice of time; a cell has the colour of what took most of it.
  raster(left, right, first, last) {
    const { content } = this;
    const each = Math.ceil((last - first + 1) / MOST_ROWS);
    const rows = Math.ceil((last - first + 1) / each);
    const [bins, kinds] = [MOST_BINS, content.calls.length + 1];
    const width = (right - left) / bins;
    const shares = new Float32Array(kinds * rows * bins);
    const best = new Float32Array(each === 1 ? rows * bins : 0);
    const whose = new Int32Array(rows * bins).fill(-1);
    const pour = (rank, start, stop, visit) => {
      if (rank < first || rank > last || start >= right || stop <= left) return;
      const row = Math.floor((rank - first) / each) * bins;
      const [from, to] = [Math.max(start, left), Math.min(stop, right)];
      const end = Math.min(Math.floor((to - left) / width), bins - 1);
      for (let bin = Math.max(Math.floor((from - left) / width), 0); bin <= end; bin += 1) {
        const inside = Math.min(to, left + (bin + 1) * width) - Math.max(from, left + bin * width);
        if (inside > 0) visit(row + bin, inside / width);
      }
    };
    const work = (kinds - 1) * rows * bins;
    for (let life = 0; life < this.livesOf.length; life += 1) {
      pour(this.livesOf[life], this.begins[life], this.ends[life], (cell, share) => { shares[work + cell] += share; });
    }
    for (let span = 0; span < this.rank.length; span += 1) {
      const kind = content.kinds[this.label[span]] * rows * bins;
      pour(this.rank[span], this.start[span], this.stop[span], (cell, share) => {
        shares[kind + cell] += share;
        shares[work + cell] -= share;
        if (each === 1 && share > best[cell]) {
          best[cell] = share;
          whose[cell] = span;
        }
      });
    }
    const [z, customdata, texts] = [[], [], new Map()];
    for (let row = 0; row < rows; row += 1) {
      const [colours, said] = [[], []];
      const top = first + row * each;
      const members = Math.min(each, last - top + 1);
      const who = members === 1 ? `rank ${top}` : `ranks ${top} to ${top + members - 1}`;
      for (let bin = 0; bin < bins; bin += 1) {
        const cell = row * bins + bin;
        let [chosen, most, sum] = [-1, 0, 0];
        for (let kind = 0; kind < kinds; kind += 1) {
          const share = shares[kind * rows * bins + cell];
          sum += share;
          if (share > most) [chosen, most] = [kind, share];
        }
        if (members - sum > most) chosen = -1;
        colours.push(chosen < 0 ? null : chosen);
        said.push(chosen < 0 ? "" : this.said(chosen, whose[cell], who, members, texts));
      }
      z.push(colours);
      customdata.push(said);
    }
    return { z, customdata, x0: left + width / 2, dx: width, y0: first + (each - 1) / 2, dy: each };
  }

  said(kind, span, who, members, texts) {
    const { content } = this;
    const key = kind < content.calls.length && members === 1 && span >= 0 ? span : `${kind} ${who}`;
    if (!texts.has(key)) {
      let text = `${who}<br>${members > 1 ? "mostly " : ""}${escaped([...content.calls, "own work"][kind])}`;
      if (typeof key === "number") {
        const [name, detail, place] = content.labels[this.label[span]].map(escaped);
        const [start, stop] = [this.start[span], this.stop[span]].map(figures);
        text = `${who}: <b>${name}</b>${place && ` at ${place}`}<br>${start} to ${stop} ${content.unit}${detail && `<br>${detail}`}`;
      }
      texts.set(key, text);
    }
    return texts.get(key);
  }

  arrows(left, right, first, last, each) {
    const found = [];
    const within = (rank) => rank >= first && rank <= last;
    for (let at = 0; each === 1 && at < this.source.length && found.length <= MOST_ARROWS; at += 1) {
      if (this.sent[at] <= right && this.arrived[at] >= left && within(this.source[at]) && within(this.dest[at])) {
        found.push(at);
      }
    }
    const drawn = { x: [], y: [], text: [], heads: [] };
    if (found.length > MOST_ARROWS) return drawn;
    for (const at of found) {
      const times = `${figures(this.sent[at])} to ${figures(this.arrived[at])} ${this.content.unit}`;
      const text = `${this.source[at]} to ${this.dest[at]}: ${whole(this.size[at])} B<br>${times}`;
      drawn.x.push(this.sent[at], this.arrived[at], null);
      drawn.y.push(this.source[at], this.dest[at], null);
      drawn.text.push(text, text, "");
      drawn.heads.push(0, 9, 0);
    }
    return drawn;
  }
}

// --------------------------------------------------------------------------------------------------------- matrix

function drawMatrix(div, content) {
  const choice = document.createElement("div");
  choice.className = "choice";
  div.before(choice);
  const buttons = content.map((one, at) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = one.title;
    button.onclick = () => show(at);
    choice.append(button);
    return button;
  });
  function show(chosen) {
    buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(at === chosen)));
    const one = content[chosen];
    const shown = one.what === "bytes" ? sized : whole;
    const rows = Math.ceil(one.size / one.each);
    const [z, texts] = [0, 1].map(() => Array.from({ length: rows }, () => new Array(rows).fill(null)));
    let [low, high] = [Infinity, 0];
    for (const [, , value] of one.cells) {
      if (value > 0) [low, high] = [Math.min(low, value), Math.max(high, value)];
    }
    const isLog = low * 100 < high;
    const name = (row) => {
      const [first, last] = [row * one.each, Math.min((row + 1) * one.each, one.size) - 1];
      return first === last ? `${one.of} ${first}` : `${one.of}s ${first} to ${last}`;
    };
    for (const [row, column, value] of one.cells) {
      if (value > 0) z[row][column] = isLog ? Math.log(value) / TEN : value;
      const exact = one.what === "bytes" ? ` (${whole(value)} B)` : " messages";
      texts[row][column] = `${name(row)} to ${name(column)}<br>${shown(value)}${exact}`;
    }
    const [from, to] = isLog ? [Math.log(low) / TEN, Math.log(high) / TEN] : [0, high || 1];
    const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => from + part * (to - from));
    const step = rankStep(one.size, 8);
    const axis = { ...AXIS, dtick: step, tick0: 0, showgrid: false, range: [-0.5, one.size - 0.5], constrain: "domain" };
    const start = (one.each - 1) / 2;
    Plotly.react(div, [{
      type: "heatmap", z, customdata: texts, x0: start, dx: one.each, y0: start, dy: one.each,
      colorscale: "Viridis", reversescale: true, zmin: from, zmax: to, hoverongaps: false,
      hovertemplate: "%{customdata}<extra></extra>",
      colorbar: {
        title: { text: `${one.what}${isLog ? "<br>(log)" : ""}` }, tickvals: ticks,
        ticktext: ticks.map((tick) => shown(Math.round(isLog ? 10 ** tick : tick))),
      },
    }], {
      height: 560, width: 720, font: FONT, margin: { l: 70, r: 20, t: 20, b: 60 }, plot_bgcolor: "#fafafa",
      xaxis: { ...axis, title: { text: `to ${one.of}` } },
      yaxis: { ...axis, title: { text: `from ${one.of}` }, range: [one.size - 0.5, -0.5], scaleanchor: "x" },
    }, { ...CONFIG, responsive: false });
  }
  show(0);
}

// --------------------------------------------------------------------------------------------------------- tables

function sortBy(head) {
  const table = head.closest("table");
  const column = [...head.parentNode.children].indexOf(head);
  const falls = head.getAttribute("aria-sort") === "ascending";
  for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", falls ? "descending" : "ascending");
  const rows = [...table.tBodies[0].rows];
  const texts = rows.map((row) => row.cells[column].textContent);
  const times = texts.every((text) => text === "" || TIME.test(text)); // such as 374 us below 10 s
  const number = times || head.classList.contains("n");
  const value = (text) => (times ? Number(TIME.exec(text)[1]) * SECONDS[TIME.exec(text)[2]] : Number(text.replace(/,/g, "")));
  const keyed = texts.map((text, at) => [text === "" ? null : number ? value(text) : text, rows[at]]);
  const sign = falls ? -1 : 1;
  keyed.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null); // what is not there comes last
    return sign * (number ? a - b : a < b ? -1 : a > b ? 1 : 0);
  });
  table.tBodies[0].append(...keyed.map(([, row]) => row));
}

document.addEventListener("click", (event) => {
  const head = event.target.closest("table.data th");
  if (head) sortBy(head);
});

for (const div of document.querySelectorAll("div.figure")) {
  const content = JSON.parse(div.nextElementSibling.textContent);
  if (div.classList.contains("timeline")) new Timeline(div, content);
  else if (div.classList.contains("matrix")) drawMatrix(div, content);
  else {
    Plotly.newPlot(div, content.data, content.layout, CONFIG);
  }
}
document.documentElement.dataset.drawn = "yes";

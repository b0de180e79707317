"use strict";
// Numbers: for each setting, in the order of the axes, the curves of data.curves at data.points times, as steps between the
// least and the largest number of the curve. Times are equal steps of ln t from t*/100 to 100 t0.
const data = JSON.parse(document.getElementById("data").textContent);
const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;
const steps = new Uint16Array(bytes(data.numbers)), limits = new Float32Array(bytes(data.limits));
const RATES = [0.01, 0.1, 1, 10];
const axes = { ...data.axes, eta_Y: RATES };
const names = Object.keys(data.axes), N = data.points;
const W = 640, H = 170, LEFT = 46, RIGHT = 8, TOP = 6, BOTTOM = 22;
const element = (id) => document.getElementById(id);
const place = {};

function text(value) {
  if (value === null) return "∞";
  if (Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-3)) {
    const [digits, power] = value.toExponential(2).split("e");
    const raised = [...String(Number(power))].map((sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]).join("");
    return (Number(digits) === 1 ? "" : Number(digits) + "·") + "10" + raised;
  }
  return Number(value.toPrecision(3)).toLocaleString("en", { maximumSignificantDigits: 3 });
}

function index() {
  return names.reduce((number, name) => number * axes[name].length + place[name], 0);
}

function curve(setting, name) {
  const number = setting * data.curves.length + data.curves.indexOf(name);
  const low = limits[2 * number], high = limits[2 * number + 1];
  return Array.from(steps.subarray(number * N, (number + 1) * N), (step) => low + ((high - low) * step) / 65535);
}

function ticks(low, high) {
  const rough = (high - low) / 4, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((each) => each * power >= rough) * power;
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + 1e-9 * step; n++) found.push(n * step);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return found.map((value) => [value, value.toFixed(digits)]);
}

function draw(id, curves, marks, t0, t1, low, high) {
  const x = (t) => LEFT + ((W - LEFT - RIGHT) * Math.log(t / t0)) / Math.log(t1 / t0);
  const y = (v) => H - BOTTOM - ((H - TOP - BOTTOM) * (v - low)) / (high - low);
  const at = (k) => LEFT + ((W - LEFT - RIGHT) * k) / (N - 1);
  const parts = [];
  for (const [kind, t] of marks) parts.push(`<path class="mark ${kind}" d="M${x(t)} ${TOP}V${H - BOTTOM}"/>`);
  for (const [value, label] of ticks(low, high)) {
    parts.push(`<path class="axis" d="M${LEFT - 4} ${y(value)}h4"/><text x="${LEFT - 7}" y="${y(value) + 4}" text-anchor="end">${label}</text>`);
  }
  for (let power = Math.ceil(Math.log10(t0)); 10 ** power <= t1; power++) {
    const left = x(10 ** power);
    parts.push(`<path class="axis" d="M${left} ${H - BOTTOM}v4"/><text x="${left}" y="${H - 4}" text-anchor="middle">10<tspan dy="-4" font-size="9">${String(power).replace("-", "−")}</tspan></text>`);
  }
  parts.push(`<path class="axis" fill="none" d="M${LEFT} ${TOP}V${H - BOTTOM}H${W - RIGHT}"/>`);
  for (const [kind, values] of curves) {
    const points = values.map((v, k) => `${at(k).toFixed(1)} ${y(v).toFixed(2)}`);
    parts.push(`<path class="curve ${kind}" d="M${points.join("L")}"/>`);
  }
  if (id === "gain") parts.push(`<text x="${(W + LEFT) / 2}" y="${H + 13}" text-anchor="middle"><tspan font-style="italic">t</tspan> (batch-size-1 steps)</text>`);
  const svg = element(id);
  svg.setAttribute("viewBox", `0 0 ${W} ${id === "gain" ? H + 18 : H}`);
  svg.innerHTML = parts.join("");
}

function show() {
  const setting = index(), eta_Y = RATES[place.eta_Y];
  for (const name of Object.keys(axes)) {
    const values = name === "overlap" ? data.overlaps[place.common_probability] : axes[name];
    element(name + "-value").textContent = text(values[place[name]]);
    element(name).setAttribute("aria-valuetext", text(values[place[name]]));
  }
  const times = data.marks[[axes.num_classes[place.num_classes], axes.vocab_size[place.vocab_size]]].map((t) => t / eta_Y);
  const marks = [["start", times[0]], ["peak", times[1]], ["end", times[2]]];
  for (const [kind, t] of marks) element(kind).textContent = text(t);
  const t0 = times[1] / 100, t1 = 100 * times[2], get = (name) => curve(setting, name);
  const rest = (a, b) => a.map((value, k) => 1 - value - b[k]);
  const own = [get("common"), get("dominant")], theory = [get("common theory"), get("dominant theory")];
  draw("attention", [["c0 theory", theory[0]], ["c1 theory", theory[1]], ["c2 theory", rest(...theory)],
    ["c0", own[0]], ["c1", own[1]], ["c2", rest(...own)]], marks, t0, t1, 0, 1);
  const gamma = [get("gamma theory"), get("gamma")], gain = [get("gain theory"), get("gain")];
  draw("gamma", [["c3 theory", gamma[0]], ["c3", gamma[1]]], marks, t0, t1, 0, 1.05 * Math.max(...gamma.flat()));
  const low = Math.min(...gain.flat()), high = Math.max(...gain.flat()), margin = 0.05 * (high - low) || 0.05 * high;
  draw("gain", [["c1 theory", gain[0]], ["c1", gain[1]]], marks, t0, t1, low - margin, high + margin);
  element("note").textContent = data.notes[setting] || "";
  const infinite = axes.seq_len.indexOf(null), lengths = axes.seq_len.length;
  const answers = infinite < 0 ? "" : data.verdicts[Math.floor(setting / lengths)];
  element("verdicts").innerHTML = [...answers].map((digit, k) =>
    `<li><b class="${ANSWERS[digit]}">${ANSWERS[digit]}</b><span>${data.claims[k].title}</span><code>${data.claims[k].id}</code></li>`).join("");
}

for (const [name, values] of Object.entries(axes)) {
  const slider = element(name), wanted = { num_classes: 10, vocab_size: 1000, common_probability: 0.3, eta_Y: 1, ratio: 1, seq_len: null };
  slider.max = values.length - 1;
  slider.disabled = values.length < 2;
  place[name] = name === "overlap" ? Math.floor((values.length - 1) / 2) : Math.max(0, values.indexOf(wanted[name]));
  slider.value = place[name];
  slider.addEventListener("input", () => { place[name] = Number(slider.value); show(); });
}
show();

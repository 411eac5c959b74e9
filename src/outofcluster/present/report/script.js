"use strict";
(function () {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const link = document.getElementById("save");
  // As it was written: numbers of 64 bits, such as seeds, would not survive being read here.
  const text = document.getElementById("summary").textContent;
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.hidden = false;

  const data = read("rates-data");
  if (!data) return;
  const find = (id) => document.getElementById(id);
  const slider = find("rate");
  const charts = [...document.querySelectorAll(".chart")].filter((chart) => chart.querySelector(".cursor"));

  // The numbers between two computed rates, on a straight line; null where an end is not known.
  function between(list, rate) {
    const rates = data.rates;
    let i = 1;
    while (i < rates.length - 1 && rates[i] < rate) i += 1;
    const low = list[i - 1], high = list[i];
    if (low === null || high === null) return null;
    const share = Math.min(Math.max((rate - rates[i - 1]) / (rates[i] - rates[i - 1]), 0), 1);
    return low + share * (high - low);
  }

  // How bad a value is: its distance from the target where the metric has one, else its loss.
  function badness(value) {
    if (data.target !== null) return Math.abs(value - data.target);
    return data.greater ? -value : value;
  }

  function move(rate, value, low, high) {
    for (const chart of charts) {
      const d = chart.dataset;
      const x = +d.left + ((+d.right - +d.left) * rate) / +d.x1;
      const y = (loss) => +d.bottom - ((+d.bottom - +d.top) * (loss - +d.y0)) / (+d.y1 - +d.y0);
      const cursor = chart.querySelector(".cursor"), dot = chart.querySelector(".cursor-dot");
      const ends = low === null || high === null ? [value, value] : [low, high];
      const places = { x1: x, x2: x, y1: y(ends[0]), y2: y(ends[1]) };
      for (const [name, place] of Object.entries(places)) cursor.setAttribute(name, place.toFixed(1));
      dot.setAttribute("cx", x.toFixed(1));
      dot.setAttribute("cy", y(value).toFixed(1));
    }
  }

  const percentage = (rate) => Math.round(1000 * rate) / 10 + " %";

  function show(rate) {
    // Where the answer needs no rate, it is not on the curve of rates.
    const told = rate === data.start && data.answer;
    const [value, low, high] = told || [data.values, data.low, data.high].map((list) => between(list, rate));
    const number = (value) => value.toFixed(data.digits).replace("-", "\u2212");
    const percent = percentage(rate);
    find("rate-shown").textContent = percent;
    slider.setAttribute("aria-valuetext", percent);
    const known = low !== null && high !== null;
    find("value").textContent = number(value);
    find("interval").textContent = known ? "(" + number(low) + " to " + number(high) + ")" : "(interval unknown)";
    const gap = value - data.naive, size = number(Math.abs(gap));
    const same = Number(Math.abs(gap).toFixed(data.digits)) === 0;
    find("difference").textContent = same ? ", as cross-validated." : ", " + size + (gap > 0 ? " above" : " below") + " the " + data.noun + " as cross-validated.";
    const answer = find("answer").dataset;
    answer.rate = rate;
    answer.value = value;
    answer.low = low;
    answer.high = high;
    move(rate, value, low, high);
    fill(rate, value, low, high, number);
  }

  // The rows of the table of numbers that depend on the rate; the first texts come back with the assumed rate.
  const rows = ["corrected-row", "optimism-row"].map(find);
  const first = rows.map((row) => row && row.innerHTML);
  function fill(rate, value, low, high, number) {
    const [corrected, optimism] = rows;
    if (!corrected) return;
    rows.forEach((row, i) => { if (row) row.innerHTML = first[i]; });
    if (rate === data.start) return;
    const set = (row, name, words) => { row.querySelector(name).textContent = words; };
    set(corrected, ".name", "corrected for " + percentage(rate) + " leakage");
    set(corrected, ".value", number(value));
    set(corrected, ".interval", low === null || high === null ? "not known" : number(low) + " to " + number(high));
    const { low: start, high: end } = corrected.dataset;
    const place = (v) => ((100 * (v - start)) / (end - start)).toFixed(2);
    const [line, dot] = corrected.querySelectorAll(".span line");
    if (line && low !== null && high !== null) {
      line.setAttribute("x1", place(low));
      line.setAttribute("x2", place(high));
      for (const name of ["x1", "x2"]) dot.setAttribute(name, place(value));
    }
    if (!optimism) return;
    set(optimism, ".value", number(badness(value) - badness(data.naive)));
    set(optimism, ".interval", "for the assumed rate only");
  }

  slider.addEventListener("input", () => show(Number(slider.value)));
  const assumed = find("assumed");
  if (assumed) {
    assumed.addEventListener("click", () => {
      slider.value = data.start;
      show(data.start);
    });
  }
  document.querySelector(".live").hidden = false;
  show(data.start);
})();

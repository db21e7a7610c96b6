// What stands under the timeline: how far the ghost is off, what happened when, and where we are.
const NS = "http://www.w3.org/2000/svg";
const WIDTH = 1000; // drawn in these units and stretched; lines keep their width
const HEIGHT = 44;

function shape(name, attributes, parent) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent.append(made);
  return made;
}

/** A number with three digits that count. */
function short(value) {
  return Number(value.toPrecision(3)).toString();
}

export class Plot {
  constructor(svg, told, events, end) {
    this.told = told;
    this.end = end;
    svg.replaceChildren();
    svg.toggleAttribute("hidden", end === 0 || (!told && !events.length));
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    const said = told ? `RMSE up to ${short(Math.max(...told.rmse))} ${told.unit}, farthest part up to ${short(1000 * Math.max(...told.farthest_m))} mm. ` : "";
    const named = events.map((event) => `${event.name} at ${event.time_s.toFixed(2)} s`).join(", ");
    svg.setAttribute("aria-label", `Error against the ghost: ${said}Events: ${named}`);
    for (const event of events) {
      const tick = shape("line", { x1: this.across(event.time_s), x2: this.across(event.time_s), y1: 0, y2: HEIGHT, class: "event" }, svg);
      shape("title", {}, tick).textContent = `${event.name} at ${event.time_s.toFixed(2)} s`;
    }
    if (told) {
      this.curve(svg, told.farthest_m, "farthest");
      this.curve(svg, told.rmse, "rmse");
    }
    this.cursor = shape("line", { y1: 0, y2: HEIGHT, class: "cursor" }, svg);
    this.at(0);
  }

  across(time) {
    return this.end > 0 ? (WIDTH * Math.min(time, this.end)) / this.end : 0;
  }

  /** Each curve fills the height by its own largest value; the words say the numbers. */
  curve(svg, values, kind) {
    const top = Math.max(...values) || 1;
    const points = values.map((value, k) => `${this.across(this.told.time_s[k]).toFixed(1)},${(HEIGHT - 1 - (HEIGHT - 4) * (value / top)).toFixed(1)}`);
    shape("polyline", { points: points.join(" "), class: kind }, svg);
  }

  /** Moves the cursor; the words about this moment, one for each curve. */
  at(time) {
    const x = this.across(time);
    this.cursor.setAttribute("x1", x);
    this.cursor.setAttribute("x2", x);
    if (!this.told) return ["", ""];
    const times = this.told.time_s;
    if (time > times.at(-1) + 1e-9) return ["the ghost has ended", ""];
    const k = Math.min(Math.round((time / (times.at(-1) || 1)) * (times.length - 1)), times.length - 1);
    return [`RMSE ${short(this.told.rmse[k])} ${this.told.unit}`, `farthest part ${short(1000 * this.told.farthest_m[k])} mm`];
  }
}

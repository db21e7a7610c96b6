// The page: a twin and an episode at real size, in a headset, or with mouse and touch. What it shows is in data.js.
import * as THREE from "three";
import { OrbitControls } from "three/addons/controls/OrbitControls.js";
import { SparkRenderer } from "@sparkjsdev/spark";
import { Hands } from "./hands.js";
import { Motion } from "./player.js";
import { Plot } from "./plot.js";
import { furnish, haunt, links, rootOf } from "./scene.js";

const data = window.TWINPROOF_DATA;
const element = (id) => document.getElementById(id);
const layers = { surfaces: [], splats: [], collision: [], gap: [] };
const NAMES = { gap: "gap heat map" };
const state = { time: 0, playing: false, ready: false, frames: 0 };

const renderer = new THREE.WebGLRenderer({ antialias: false }); // with splats, antialiasing hangs some headsets
renderer.setPixelRatio(Math.min(window.devicePixelRatio, 2));
renderer.xr.enabled = true;
renderer.xr.setReferenceSpaceType("local-floor");
document.body.prepend(renderer.domElement);

const scene = new THREE.Scene();
scene.background = new THREE.Color(matchMedia("(prefers-color-scheme: dark)").matches ? 0x121518 : 0xf4f5f6);
scene.add(new THREE.HemisphereLight(0xffffff, 0x888888, 2.2));
const sun = new THREE.DirectionalLight(0xffffff, 1.4);
sun.position.set(1, 3, 2);
scene.add(sun);
scene.add(new SparkRenderer({ renderer }));
const camera = new THREE.PerspectiveCamera(55, 1, 0.01, 50);
scene.add(camera);

const root = rootOf(scene);
const groups = links(root, data.links);
const ghosts = data.ghost ? links(root, data.links) : [];
const motion = new Motion(data.motion, data.links.length);
const ghost = data.ghost ? new Motion(data.ghost, data.links.length) : null;
const hands = new Hands(groups, data.free);
const plot = new Plot(element("plot"), data.apart, motion.events, motion.end);
const orbit = new OrbitControls(camera, renderer.domElement);
orbit.listenToKeyEvents(window);
hands.pointers(renderer.domElement, camera, orbit);

function frame() {
  const [low, high] = data.bounds.map((corner) => new THREE.Vector3(...corner).applyMatrix4(root.matrixWorld));
  const middle = low.clone().add(high).multiplyScalar(0.5);
  const size = Math.max(low.distanceTo(high), 0.05);
  orbit.target.copy(middle);
  camera.position.copy(middle).add(new THREE.Vector3(0.6, 0.39, 0.7).multiplyScalar(size));
  orbit.update();
}

function fit() {
  if (renderer.xr.isPresenting) return;
  const height = Math.max(window.innerHeight - element("bar").offsetHeight, 1);
  camera.aspect = window.innerWidth / height;
  camera.updateProjectionMatrix();
  renderer.setSize(window.innerWidth, height);
}

function seek(time) {
  state.time = Math.min(Math.max(time, 0), motion.end);
  motion.pose(groups, state.time, hands.moved);
  ghost?.pose(ghosts, state.time);
  element("time").value = state.time;
  element("now").textContent = `${state.time.toFixed(2)} s`;
  [element("rmse").textContent, element("farthest").textContent] = plot.at(state.time);
}

function jump(step) {
  const event = motion.event(state.time, step);
  if (!event) return;
  play(false);
  seek(event.time_s);
  element("event").textContent = event.name;
}

function play(on) {
  state.playing = on && motion.end > 0;
  element("play").textContent = state.playing ? "pause" : "play";
}

function controls() {
  element("title").textContent = document.title = data.title;
  element("what").textContent = [data.motion.label, data.ghost && `ghost: ${data.ghost.label}`, ...data.notes].filter(Boolean).join(". ");
  element("time").max = motion.end;
  element("marks").append(...motion.events.map((event) => new Option(event.name, event.time_s))); // ticks
  element("time").disabled = motion.end === 0;
  element("time").addEventListener("input", (event) => {
    play(false);
    seek(Number(event.target.value));
  });
  const there = (event) => {
    const box = element("plot").getBoundingClientRect();
    play(false);
    seek((motion.end * (event.clientX - box.left)) / box.width);
  };
  element("plot").addEventListener("pointerdown", there);
  element("plot").addEventListener("pointermove", (event) => event.buttons && there(event));
  element("play").addEventListener("click", () => play(!state.playing));
  element("before").addEventListener("click", () => jump(-1));
  element("after").addEventListener("click", () => jump(1));
  element("back").addEventListener("click", putBack);
  element("back").hidden = !data.free.length;
  for (const id of ["before", "after"]) element(id).hidden = !motion.events.length;
  for (const [name, parts] of Object.entries(layers)) {
    if (!parts.length) continue;
    const box = document.createElement("input");
    box.type = "checkbox";
    box.id = `layer-${name}`;
    box.checked = name === "splats" || (name === "surfaces" && !layers.splats.length);
    const show = () => parts.forEach((part) => (part.visible = box.checked));
    box.addEventListener("change", show);
    show();
    const label = document.createElement("label");
    label.append(box, ` ${NAMES[name] ?? name} `);
    element("layers").append(label);
  }
}

function putBack() {
  hands.putBack();
  seek(state.time);
}

/** At the start the scene stands before the wearer; what stands on a table is lifted to a table's height. */
function enter() {
  const [low, high] = data.bounds;
  const table = low[2] > -0.3 && high[2] < 1.2 ? 0.75 - Math.max(low[2], 0) : 0;
  root.position.set(-(low[0] + high[0]) / 2, table, -0.9 + (low[1] + high[1]) / 2);
}

function leave() {
  root.position.set(0, 0, 0);
  root.updateMatrixWorld(true);
  frame();
  fit();
}

async function headset() {
  const button = element("vr");
  const allowed = document.featurePolicy?.allowsFeature("xr-spatial-tracking") ?? true; // not in a report's frame
  if (!navigator.xr || !allowed || !(await navigator.xr.isSessionSupported("immersive-vr"))) return;
  button.disabled = button.hidden = false;
  fit();
  button.addEventListener("click", async () => {
    if (renderer.xr.isPresenting) return renderer.xr.getSession().end();
    const session = await navigator.xr.requestSession("immersive-vr", { optionalFeatures: ["local-floor", "hand-tracking"] });
    await renderer.xr.setSession(session);
  });
  renderer.xr.addEventListener("sessionstart", enter);
  renderer.xr.addEventListener("sessionend", leave);
}

/** Squeeze takes what it touches or points at; trigger plays; a stick to the side steps through events. */
function controllers() {
  for (const index of [0, 1]) {
    const controller = renderer.xr.getController(index);
    const beam = new THREE.BufferGeometry().setFromPoints([new THREE.Vector3(), new THREE.Vector3(0, 0, -0.4)]);
    controller.add(new THREE.Line(beam, new THREE.LineBasicMaterial({ color: 0x2678ff })));
    controller.addEventListener("squeezestart", () => hands.take(controller));
    controller.addEventListener("squeezeend", () => hands.leave(controller));
    controller.addEventListener("selectstart", () => hands.take(controller) || play(!state.playing));
    controller.addEventListener("selectend", () => hands.leave(controller));
    scene.add(controller);
  }
}

const pushed = new Map();
function sticks() {
  for (const source of renderer.xr.getSession()?.inputSources ?? []) {
    const side = source.gamepad?.axes?.[2] ?? 0;
    const was = pushed.get(source.handedness) ?? 0;
    const now = Math.abs(side) > 0.7 ? Math.sign(side) : 0;
    if (now && now !== was) jump(now);
    pushed.set(source.handedness, now);
    if (source.gamepad?.buttons?.[4]?.pressed) putBack(); // A or X
  }
}

const clock = new THREE.Timer();
function tick(now) {
  clock.update(now);
  if (state.playing) {
    const after = state.time + clock.getDelta();
    seek(after > motion.end ? 0 : after);
  }
  if (renderer.xr.isPresenting) sticks();
  else orbit.update();
  hands.follow();
  renderer.render(scene, camera);
  state.frames += 1;
}

// What tests and scripts may ask and do.
window.twinproof = {
  seek,
  jump,
  play,
  on_screen: (link) => {
    const at = groups[data.links.indexOf(link)].getWorldPosition(new THREE.Vector3()).project(camera);
    const seen = renderer.domElement.getBoundingClientRect();
    return [seen.left + ((at.x + 1) / 2) * seen.width, seen.top + ((1 - at.y) / 2) * seen.height];
  },
  state: () => ({
    ...state,
    presenting: renderer.xr.isPresenting,
    moved: [...hands.moved].map((link) => data.links[link]),
    links: Object.fromEntries(groups.map((group, k) => [data.links[k], group.getWorldPosition(new THREE.Vector3()).toArray()])),
  }),
};

fit();
window.addEventListener("resize", fit);
furnish(data, groups, layers).then(() => {
  if (ghost) haunt(data, groups, ghosts, layers.surfaces);
  controls();
  controllers();
  fit(); // the bar has its size now
  seek(0);
  root.updateMatrixWorld(true);
  frame();
  headset();
  renderer.setAnimationLoop(tick);
  state.ready = true;
});

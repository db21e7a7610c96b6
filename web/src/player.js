// An episode: poses of all links at even times, between which it moves evenly; and what happened when.
import * as THREE from "three";
import { bytes } from "./scene.js";

const WIDTH = 7; // x y z, qx qy qz qw

export class Motion {
  constructor(told, links) {
    this.step = told.step_s;
    this.links = links;
    this.rows = new Float32Array(bytes(told.poses).buffer);
    this.frames = this.rows.length / (links * WIDTH);
    this.end = (this.frames - 1) * this.step;
    this.events = told.events;
  }

  /** Moves groups to a moment; `held` names those that a hand has. */
  pose(groups, time, held = new Set()) {
    const at = Math.min(Math.max(time / this.step, 0), this.frames - 1);
    const low = Math.min(Math.floor(at), Math.max(this.frames - 2, 0));
    const high = Math.min(low + 1, this.frames - 1);
    groups.forEach((group, k) => {
      if (held.has(k)) return;
      const a = (low * this.links + k) * WIDTH;
      const b = (high * this.links + k) * WIDTH;
      FROM.fromArray(this.rows, a);
      group.position.fromArray(this.rows, b).lerp(FROM, 1 - (at - low));
      TURN.fromArray(this.rows, b + 3);
      group.quaternion.fromArray(this.rows, a + 3).slerp(TURN, at - low);
    });
  }

  /** The event before or after a moment, or the one at the end of the list. */
  event(time, step) {
    const near = 1e-3;
    if (step > 0) return this.events.find((each) => each.time_s > time + near) ?? this.events[0];
    return this.events.findLast((each) => each.time_s < time - near) ?? this.events.at(-1);
  }
}

const FROM = new THREE.Vector3();
const TURN = new THREE.Quaternion();

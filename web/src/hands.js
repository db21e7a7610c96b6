// Taking hold of things: with a controller's squeeze, a pinching hand, a mouse or a finger. Free bodies only.
import * as THREE from "three";

const REACH = 0.15; // m from the controller to what it takes without pointing at it

export class Hands {
  constructor(groups, free) {
    this.groups = groups;
    this.free = free;
    this.moved = new Set(); // links that no longer follow the episode
    this.grips = new Map(); // who holds -> {link, offset}
    this.ray = new THREE.Raycaster();
  }

  /** The free link that a ray hits first. */
  hit(ray) {
    let best = null;
    for (const link of this.free) {
      const box = new THREE.Box3();
      this.groups[link].traverse((part) => {
        if (part.isMesh) box.union(new THREE.Box3().setFromObject(part)); // hidden surfaces can be taken too
      });
      const place = ray.intersectBox(box, new THREE.Vector3());
      if (place && (!best || ray.origin.distanceTo(place) < best.distance)) best = { link, distance: ray.origin.distanceTo(place), place };
    }
    return best;
  }

  near(place) {
    const at = new THREE.Vector3();
    const found = this.free.map((link) => ({ link, distance: this.groups[link].getWorldPosition(at).distanceTo(place) }));
    found.sort((a, b) => a.distance - b.distance);
    return found.length && found[0].distance < REACH ? found[0] : null;
  }

  /** A controller closes: what it touches, or points at, goes with it. */
  take(controller) {
    const place = controller.getWorldPosition(new THREE.Vector3());
    const ahead = new THREE.Vector3(0, 0, -1).transformDirection(controller.matrixWorld);
    const found = this.near(place) ?? this.hit(new THREE.Ray(place, ahead));
    if (!found) return false;
    const group = this.groups[found.link];
    group.updateWorldMatrix(true, false);
    const offset = controller.matrixWorld.clone().invert().multiply(group.matrixWorld);
    this.grips.set(controller, { link: found.link, offset });
    this.moved.add(found.link);
    return true;
  }

  leave(controller) {
    this.grips.delete(controller);
  }

  /** Lets what is held follow whoever holds it. */
  follow() {
    for (const [controller, { link, offset }] of this.grips) {
      controller.updateWorldMatrix(true, false);
      this.place(link, controller.matrixWorld.clone().multiply(offset));
    }
  }

  place(link, worldMatrix) {
    const group = this.groups[link];
    const local = group.parent.matrixWorld.clone().invert().multiply(worldMatrix);
    local.decompose(group.position, group.quaternion, new THREE.Vector3());
  }

  /** Mouse and touch: a free body that is pressed moves in the plane that faces the viewer. */
  pointers(canvas, camera, orbit) {
    let held = null;
    const aim = (event) => {
      const seen = canvas.getBoundingClientRect();
      const at = new THREE.Vector2(((event.clientX - seen.left) / seen.width) * 2 - 1, 1 - ((event.clientY - seen.top) / seen.height) * 2);
      this.ray.setFromCamera(at, camera);
      return this.ray.ray;
    };
    canvas.addEventListener("pointerdown", (event) => {
      const found = this.hit(aim(event));
      if (!found) return;
      const facing = camera.getWorldDirection(new THREE.Vector3());
      const group = this.groups[found.link];
      held = { link: found.link, plane: new THREE.Plane().setFromNormalAndCoplanarPoint(facing, found.place), from: found.place, start: group.getWorldPosition(new THREE.Vector3()) };
      this.moved.add(found.link);
      orbit.enabled = false;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const to = held && aim(event).intersectPlane(held.plane, new THREE.Vector3());
      if (!to) return;
      const group = this.groups[held.link];
      group.parent.worldToLocal(group.position.copy(held.start).add(to).sub(held.from));
    });
    const end = () => {
      held = null;
      orbit.enabled = true;
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
  }

  putBack() {
    this.grips.clear();
    this.moved.clear();
  }
}

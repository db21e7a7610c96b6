// The twin as three.js objects: a group for each link, in a root that turns z up into y up. One unit is one metre.
import * as THREE from "three";
import { GLTFLoader } from "three/addons/loaders/GLTFLoader.js";
import { SplatFileType, SplatMesh } from "@sparkjsdev/spark";

export const GHOST = 0x2678ff;
const Z_UP = -Math.PI / 2;

export function bytes(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** Groups by link, for the twin or for its ghost. */
export function links(root, names) {
  return names.map((name) => {
    const group = new THREE.Group();
    group.name = name;
    root.add(group);
    return group;
  });
}

export function rootOf(scene) {
  const root = new THREE.Group();
  root.rotation.x = Z_UP;
  scene.add(root);
  return root;
}

/** Loads every surface and every cloud of splats; resolves when all of them are there. */
export async function furnish(data, groups, layers) {
  const loader = new GLTFLoader();
  const places = data.pieces.map(() => new THREE.Group());
  data.pieces.forEach((piece, k) => layers[piece.layer].push(places[k])); // in order, whichever comes first
  const waiting = data.pieces.map(async (piece, k) => {
    const model = await loader.parseAsync(bytes(piece.glb).buffer, "");
    const upright = places[k];
    upright.rotation.x = -Z_UP; // a GLB has y up; our links have z up
    upright.add(model.scene);
    groups[piece.link].add(upright);
    if (piece.layer === "collision") paint(upright, 0xff8c14, 0.5);
  });
  for (const cloud of data.splats) {
    const mesh = new SplatMesh({ fileBytes: bytes(cloud.spz), fileType: SplatFileType.SPZ });
    groups[cloud.link].add(mesh);
    layers.splats.push(mesh);
    waiting.push(mesh.initialized);
  }
  await Promise.all(waiting);
}

/** A pale copy of the surfaces on other groups. */
export function haunt(data, groups, ghosts, surfaces) {
  data.pieces.filter((piece) => piece.layer === "surfaces").forEach((piece, k) => {
    if (!data.moving.includes(piece.link)) return; // what cannot move would only hide the twin
    const copy = surfaces[k].clone(true);
    copy.visible = true;
    paint(copy, GHOST, 0.35);
    ghosts[piece.link].add(copy);
  });
}

function paint(object, colour, opacity) {
  object.traverse((part) => {
    if (part.isMesh) {
      part.material = new THREE.MeshStandardMaterial({ color: colour, opacity, transparent: true, depthWrite: false, polygonOffset: true, polygonOffsetFactor: -1 });
      part.geometry.attributes.normal ?? part.geometry.computeVertexNormals();
    }
  });
}

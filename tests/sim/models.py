"""Small models for the tests of `sim`: bodies whose inertia is stated in every way, and one of everything else."""

from __future__ import annotations

ARM = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.002"/>
  <worldbody>
    <geom name="floor" type="plane" size="2 2 .1"/>
    <body name="upper" pos="0 0 1">
      <joint name="shoulder" axis="0 1 0" range="-2 2" limited="true" damping=".1"/>
      <geom name="upper" type="capsule" fromto="0 0 0 .3 0 0" size=".03"/>
      <body name="lower" pos=".3 0 0">
        <joint name="elbow" axis="0 1 0" range="-2 2" limited="true" damping=".1"/>
        <geom name="lower" type="capsule" fromto="0 0 0 .25 0 0" size=".025"/>
      </body>
    </body>
    <body name="cube" pos=".8 0 .05">
      <freejoint name="cube"/>
      <geom name="cube" type="box" size=".05 .05 .05" mass=".2"/>
    </body>
  </worldbody>
  <actuator>
    <position name="shoulder" joint="shoulder" kp="40" kv="2" forcerange="-20 20"/>
    <position name="elbow" joint="elbow" kp="30" kv="1" forcerange="-20 20"/>
  </actuator>
  <sensor>
    <jointpos name="shoulder" joint="shoulder"/>
    <jointpos name="elbow" joint="elbow"/>
  </sensor>
</mujoco>
"""

# One body for each way to state an inertia, and things that the compiler would derive from other things.
EVERYTHING = """
<mujoco>
  <compiler angle="degree"/>
  <option timestep="0.002" gravity="0 0 -9.81"/>
  <statistic extent="3"/>
  <asset>
    <texture name="tiles" type="2d" builtin="checker" width="8" height="8" rgb1="1 0 0" rgb2="0 1 0"/>
    <texture name="grey" type="2d" builtin="flat" width="8" height="8" rgb1=".5 .5 .5"/>
    <material name="tiled" texture="tiles" rgba=".9 .8 .7 1" texrepeat="3 2"/>
    <material name="plain" rgba=".1 .2 .3 1" shininess=".3"/>
    <mesh name="wedge" vertex="0 0 0  .15 0 0  0 .1 0  0 0 .07"/>
    <mesh name="twice" vertex="0 0 0  .2 0 0  0 .17 0  0 0 .1"/>
  </asset>
  <worldbody>
    <geom name="floor" type="plane" size="2 2 .1" material="tiled" friction=".7 .01 .001"/>
    <light name="lamp" pos="0 .5 3" dir=".2 .3 -1" diffuse=".6 .5 .4"/>
    <frame pos="1 0 0" euler="0 0 90">
      <camera name="side" pos="0 0 1" euler="60 10 0"/>
      <light name="framed" pos="0 0 2" dir="0 1 -1"/>
    </frame>
    <camera name="lens" pos="0 -1 1" xyaxes="1 0 0 0 .5 1" resolution="640 480" sensorsize=".0064 .0048"
            focalpixel="600 610" principalpixel="3 -2"/>
    <body name="by_mass" pos="0 0 .5">
      <freejoint name="by_mass"/>
      <geom name="by_mass" type="box" size=".05 .04 .03" mass=".3" friction=".4 .02 .002"/>
      <camera name="wrist" pos="0 0 .1" euler="180 0 0"/>
    </body>
    <body name="by_density" pos="1 0 .5">
      <joint name="hinge" axis="0 1 0" range="-90 60" springdamper=".2 .7"/>
      <geom name="by_density" type="capsule" fromto="0 0 0 .2 .1 .1" size=".03" density="700"/>
      <geom name="off_axis" type="sphere" size=".04" pos=".1 .2 0" material="plain"/>
      <body name="by_inertia" pos=".3 0 0">
        <joint name="slider" type="slide" axis="1 1 0" range="-.1 .2" damping=".4" frictionloss=".2" stiffness="3"/>
        <inertial pos=".01 .02 .03" quat=".9 .1 .2 .3" mass="1.2" diaginertia=".01 .012 .015"/>
        <geom name="by_inertia" type="cylinder" size=".05 .04"/>
      </body>
      <body name="by_full_inertia" pos="-.3 0 0">
        <joint name="ball" type="ball" damping=".2" armature=".01"/>
        <inertial pos=".01 .02 .03" mass="1.1" fullinertia=".01 .012 .015 .001 .002 -.001"/>
        <geom type="ellipsoid" size=".05 .04 .03"/>
      </body>
    </body>
    <body name="meshed" pos="2 0 .5"><freejoint name="meshed"/><geom name="wedge" type="mesh" mesh="wedge"/></body>
    <body name="shared" pos="3 0 .5">
      <freejoint name="shared"/>
      <geom name="shown" type="mesh" mesh="twice" contype="0" conaffinity="0"/>
      <geom name="touched" type="mesh" mesh="twice" solref="-2000 -50"/>
    </body>
  </worldbody>
  <contact><pair name="foot" geom1="by_mass" geom2="floor" friction=".5 .5 .01 .001 .001"/></contact>
  <actuator>
    <position name="servo" joint="hinge" kp="20" dampratio="1" inheritrange="1" forcerange="-4 5"/>
    <motor name="motor" joint="slider" gear="2"/>
    <velocity name="speed" joint="hinge" kv="3"/>
  </actuator>
  <sensor>
    <jointpos name="angle" joint="hinge" noise=".01"/>
    <framepos name="place" objtype="body" objname="by_mass"/>
    <actuatorpos name="servo" actuator="servo"/>
  </sensor>
</mujoco>
"""

# The compiler changes what these state (masses after the fact, static bodies), and much has no name.
TRICKY = """
<mujoco>
  <compiler settotalmass="7" inertiafromgeom="true" boundmass=".05" fusestatic="true" balanceinertia="true"/>
  <worldbody>
    <body name="base">
      <geom type="box" size=".1 .1 .1"/>
      <body name="link" pos="0 0 .2">
        <joint axis="0 1 0"/>
        <inertial pos="0 0 0" mass="5" diaginertia="1 1 1"/>
        <geom type="box" size=".02 .03 .2" pos="0 0 .2"/>
        <body name="fused" pos="0 0 .4"><geom type="sphere" size=".05"/></body>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="link_joint0"/></actuator>
</mujoco>
"""

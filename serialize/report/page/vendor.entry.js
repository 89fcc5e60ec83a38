export { hierarchy, treemap } from "d3-hierarchy";
export { scaleLinear, scaleLog } from "d3-scale";

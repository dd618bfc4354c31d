// A trace as boxes and curves: tokens to the right, layers upwards, the answer on top. A link's flow is its share of its target's
// effects times the target's influence, so it is its part in what reaches the answer (docs/trace.md).
import type { Graph, GraphNode, HeadShare } from "../data/records.ts";

export interface Box { id: string; layer: number; token: number; influence: number; kind: string; label: string; members: GraphNode[] }
export interface Flow { source: Box; target: Box; flow: number; weight: number; heads: HeadShare[] }
export interface Gathered { boxes: Map<string, Box>; flows: Flow[]; layers: number; tokens: number }

const layerOf = (node: GraphNode): number => (node.layer === "E" ? -1 : Number(node.layer));

// Nodes by themselves, or gathered by token and layer; biases are left out, as in the figures.
export function gather(graph: Graph, grouped: boolean): Gathered {
  const boxes = new Map<string, Box>(), home = new Map<string, Box>();
  for (const node of graph.nodes) {
    if (node.feature_type === "bias") continue;
    const layer = layerOf(node), apart = !grouped || node.feature_type === "logit" || node.feature_type === "embedding";
    const id = apart ? node.node_id : `${layer}@${node.ctx_idx}`;
    let box = boxes.get(id);
    if (!box) boxes.set(id, box = { id, layer, token: node.ctx_idx, influence: 0, kind: node.feature_type, label: node.clerp || node.name || node.node_id, members: [] });
    box.influence += node.own_influence ?? 0;
    box.members.push(node);
    home.set(node.node_id, box);
  }
  const sums = new Map<string, number>(), influence = new Map(graph.nodes.map((node) => [node.node_id, node.own_influence ?? 0]));
  for (const link of graph.links) sums.set(link.target, (sums.get(link.target) ?? 0) + Math.abs(link.weight));
  const joined = new Map<string, Flow>();
  for (const link of graph.links) {
    const source = home.get(link.source), target = home.get(link.target);
    if (!source || !target || source === target) continue;
    const share = Math.abs(link.weight) / (sums.get(link.target) || 1) * (influence.get(link.target) ?? 0), key = `${source.id}\n${target.id}`;
    let flow = joined.get(key);
    if (!flow) joined.set(key, flow = { source, target, flow: 0, weight: 0, heads: [] });
    flow.flow += share;
    flow.weight += Math.sign(link.weight) * share;
    const scale = share / (Math.abs(link.weight) || 1);
    for (const head of link.heads ?? []) addShare(flow.heads, head, scale);
  }
  const flows = [...joined.values()].sort((a, b) => b.flow - a.flow);
  for (const flow of flows) flow.heads.sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight));
  return { boxes, flows, layers: Math.max(1, ...[...boxes.values()].map((box) => box.layer)), tokens: Math.max(1, ...[...boxes.values()].map((box) => box.token + 1)) };
}

function addShare(to: HeadShare[], head: HeadShare, scale: number): void {
  const known = to.find((one) => one.layer === head.layer && one.head === head.head);
  if (known) known.weight += head.weight * scale;
  else to.push({ layer: head.layer, head: head.head, weight: head.weight * scale });
}

// Heads of a link by their part of its absolute shares: [["L5H6", 0.7], ...].
export function headShares(flow: Flow, most: number): [string, number][] {
  const all = flow.heads.reduce((sum, head) => sum + Math.abs(head.weight), 0);
  return all === 0 ? [] : flow.heads.slice(0, most).map((head) => [`L${head.layer}H${head.head}`, Math.abs(head.weight) / all]);
}

export const kMargin = 16;   // beside the first and last token: the answer's box stands above the last

// Where a token's column begins, and its width.
export function placeTokens(tokens: number, w: number): { left: number; column: number } {
  return { left: kMargin, column: (w - 2 * kMargin) / tokens };
}

// Middle of each box in a panel of w x h: nodes that share token and layer stand beside one another.
export function placeBoxes(gathered: Gathered, w: number, h: number): Map<string, { x: number; y: number; room: number }> {
  const cells = new Map<string, Box[]>(), out = new Map<string, { x: number; y: number; room: number }>();
  for (const box of gathered.boxes.values()) {
    const key = `${box.layer} ${box.token}`;
    cells.set(key, [...(cells.get(key) ?? []), box]);
  }
  const { left, column } = placeTokens(gathered.tokens, w), row = h / (gathered.layers + 2);
  for (const boxes of cells.values()) {
    boxes.sort((a, b) => b.influence - a.influence).forEach((box, n) => {
      const share = (n + 0.5) / boxes.length;
      out.set(box.id, { x: left + (box.token + 0.12 + 0.76 * share) * column, y: h - (box.layer + 1.5) * row, room: column * 0.76 / boxes.length });
    });
  }
  return out;
}

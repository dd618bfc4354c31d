// The records of the server's routes, as docs/json.md and the OpenAPI description have them. Only what the page reads.

export interface ModelInfo {
  name: string; architecture: string; layers: number; heads: number; context: number; vocabulary: number;
  gated: boolean; gate: string | null; device: string; features: boolean;
}

export interface Api {
  program: string; embedded: boolean; prompt: string; models: ModelInfo[]; tasks: string[];
  statistics: { key: string; title: string; meaning: string }[];
  classes: { name: string; measure: string; threshold: number | null }[];
  limits: { prompt_tokens: number; all_head_cells: number; max_nodes: number };
  training: { name: string } | null;
}

export interface NextToken {
  id: number; token: string; logit: number; probability: number;
  logit_before?: number; probability_before?: number;
}

export interface HeadOnPrompt { head: string; mass: number; peak: number; strength: number; blank: boolean; kept?: number }

export interface RunModel {
  name: string; ids: number[]; tokens: string[]; next: NextToken[]; heads: HeadOnPrompt[]; prompt_kept_edges?: number;
}
export interface Run { prompt: string; models: RunModel[] }

export interface Switched {
  models: { name: string; off: string[]; answer: NextToken; next: NextToken[] }[];
}

export interface Estimate { mean: number | null; interval: [number, number] | null }
export type HeadStatistics = {
  name: string; layer: number; head: number; class: string; diagonal_dominant: boolean;
} & { [statistic: string]: Estimate | string | number | boolean | null };
export interface ModelStatistics {
  name: string; layers: number; heads_per_layer: number; classes: Record<string, number>; heads: HeadStatistics[];
}
export interface ComparisonRow {
  key: string; title: string; dense: number | null; sparse: number | null; difference: number | null;
  p: number | null; p_holm: number | null; prompts: number;
}
export interface Statistics {
  prompt: string | null; models: ModelStatistics[]; comparisons: { dense: string; sparse: string; rows: ComparisonRow[] }[];
}

export interface Scatter {
  models: { name: string; heads: string[]; tokens: number; pearson: (number | null)[][]; spearman: (number | null)[][] }[];
}

export interface Lens {
  model: string; tokens: string[]; points: string[]; answer: { id: number; token: string };
  top: { id: number; token: string; probability: number }[][][]; answer_probability: number[][];
}

export interface Importance {
  models: {
    name: string; answer: { token: string } | null; wrong: { token: string } | null; metric: string;
    clean_metric: number; effects: number[][];
  }[];
}

export interface Circuit {
  task: string | null; prompt: string | null; threshold: number;
  models: {
    name: string; order: string[]; scores: number[]; counts: number[]; faithfulness: number[];
    intervals: ([number, number] | null)[]; heads_at_threshold: number; candidates: number;
  }[];
  ratios: { dense: string; sparse: string; ratio: number; interval: [number, number] | null }[];
}

export interface GraphNode {
  node_id: string; layer: string; ctx_idx: number; feature_type: string; clerp: string; name?: string;
  influence: number | null; own_influence?: number; is_target_logit: boolean; token_prob: number;
}
export interface HeadShare { layer: number; head: number; weight: number }
export interface GraphLink { source: string; target: string; weight: number; heads?: HeadShare[]; other_heads?: number }
export interface Graph { metadata: { prompt_tokens: string[] }; nodes: GraphNode[]; links: GraphLink[] }

export interface Explanation {
  from: number; to: number; share: number; needed: number; total: number;
  heads: { head: string; weight: number; signed: number; flow: number }[];
}
export interface TraceModel {
  name: string;
  trace: { tokens: string[]; targets: NextToken[]; explanation: Explanation | null };
  graph: Graph;
}
export interface Trace { one_answer: boolean; models: TraceModel[] }

export type MetricsLine = Record<string, number | null>;
export interface FrontierPoint { folder: string; held_out_loss: number | null; kept_edges: number | null; open_heads: number | null }
export interface Training {
  name: string; point: number; points: number; frontier: FrontierPoint[]; control?: MetricsLine | null; ended: boolean;
  from: number; next: number; lines: MetricsLine[]; result: Record<string, unknown> | null;
}

export interface Progress { stage: string; done: number; all: number; cancel?: () => void }

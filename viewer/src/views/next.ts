// The next token of every model side by side, with heads off beside without.
import type { Answers } from "../ui/answer.ts";
import { bars } from "../ui/answer.ts";
import { modelColour } from "../draw/theme.ts";
import { paintTable, tableHeight, type PaintedTable } from "../draw/chart.ts";
import { countHeads, figure, h, markToken, percent } from "../ui/dom.ts";
import type { Drawing } from "../ui/plot.ts";
import type { Room, View } from "../ui/view.ts";

export class NextView implements View {
  readonly element: HTMLElement;
  private readonly columns = h("div", { class: "next-columns" });

  constructor(private readonly room: Room, private readonly answers: Answers) {
    this.element = h("section", { class: "view", id: "view-next", "aria-label": "next token" }, this.columns);
    answers.onChange = () => this.update();
  }

  update(): void {
    this.columns.replaceChildren(...this.answers.current.map((model, n) => {
      const name = h("h2", {}, model.name), colour = modelColour(this.room.theme(), n);
      name.style.color = colour;
      return h("div", {}, name, model.off.length ? h("p", { class: "reading" }, `without ${countHeads(model.off.length)}; the frame is what it was`) : null,
        h("p", { class: "bars-heading" }, h("span", {}, "token"), h("span", {}, "probability"), h("span", {}, "logit")), bars(model.next, colour, model.off.length > 0, true));
    }));
  }

  exported(): { drawing: Drawing; records: unknown } {
    const models = this.answers.current;
    const rows = Array.from({ length: Math.max(0, ...models.map((model) => model.next.length)) }, (_, n) => [String(n + 1), ...models.flatMap((model) => {
      const one = model.next[n];
      return one ? [markToken(one.token), percent(one.probability), figure(one.logit)] : ["", "", ""];
    })]);
    const table: PaintedTable = { title: "next token", headings: ["", ...models.flatMap((model) => [model.name, "probability", "logit"])], rows };
    return {
      drawing: { title: table.title, height: () => tableHeight(table), paint: (surface, width, _height, theme) => paintTable(surface, table, width, theme) },
      records: { prompt: this.room.store.state.prompt, models },
    };
  }
}

package study

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/internal/sorted"
)

// printer writes tables as text or Markdown.
type printer struct {
	w        io.Writer
	display  term.Display
	markdown bool
}

// write prints the document: a summary, the tables of gaps and of times over all graphs, and then the tables with a row
// for each graph.
func (d *Document) write(p *printer) {
	if text := d.summary(); text != "" {
		p.display.WriteSentences(p.w, text)
	}
	fmt.Fprintln(p.w, format.Wrap(d.caption(), p.display.ProseWidth()))
	p.printTable("Gaps to the certified bound: "+d.firstCondition(), d.gapTable())
	p.printTable(d.slowdownTable())
	if len(d.Conditions) > 1 {
		p.printTable("Geometric mean of the gap, %",
			d.gapTableByCondition(func(s *Summary) string { return percent(s.MeanGap, 2) }))
		p.printTable("Median gap, %", d.gapTableByCondition(func(s *Summary) string { return percent(s.MedianGap, 2) }))
		p.printTable("Greatest gap, %", d.gapTableByCondition(func(s *Summary) string { return percent(s.WorstGap, 1) }))
	}
	groups, resultsOf := d.groups()
	for i, group := range groups {
		if i == 0 {
			p.printTable("Graphs: "+d.firstCondition(), graphTable(d.Strategies, resultsOf[group]))
		}
		if group.threads > 0 {
			p.printTable(fmt.Sprintf("Median times, ms: %s, %s", group.condition, format.Count(group.threads, "thread")),
				timeTable(resultsOf[group]))
			p.printTable(regretTable(group, resultsOf[group]))
		}
	}
	d.tunedTables(p.printTable)
	d.writeOrders(p)
	for _, text := range d.noises() {
		fmt.Fprintln(p.w, "\n"+format.Wrap(format.Printable(text), p.display.ProseWidth()))
	}
}

// writeOrders prints, for each measured condition, the number of pairs of plans whose costs predict the faster plan.
func (d *Document) writeOrders(p *printer) {
	for _, o := range d.Orders {
		fmt.Fprintf(p.w, "\n%s, %s: costs predict the faster plan in %d of %s whose times differ\n", o.Condition,
			format.Count(o.Threads, "thread"), o.Different-len(o.Misordered), format.Count(o.Different, "pair"))
		for _, pair := range o.Misordered {
			fmt.Fprintln(p.w, "misordered: "+pair)
		}
	}
}

// printTable prints a table with a title.
func (p *printer) printTable(title string, t *term.Table) {
	if len(t.Rows) == 0 {
		return
	}
	if p.markdown {
		fmt.Fprintf(p.w, "\n**%s**\n\n", title)
		t.WriteMarkdown(p.w)
		return
	}
	fmt.Fprintln(p.w, "\n"+p.display.Paint(term.Strong, title))
	t.Write(p.w, p.display)
}

// firstCondition names the condition of tables that show one condition only.
func (d *Document) firstCondition() string {
	if n := len(d.Conditions); n > 1 {
		return fmt.Sprintf("%s (the first of %d conditions)", d.Conditions[0], n)
	}
	return d.Conditions[0]
}

// summary compares the strategies by their gaps under all conditions, in a sentence; empty without results.
func (d *Document) summary() string {
	var clauses []string // one for each strategy
	for i, name := range d.Strategies {
		var gaps []float64
		for _, r := range d.Results {
			gaps = append(gaps, r.Plans[i].Gap)
		}
		if len(gaps) == 0 {
			return ""
		}
		sorted.Floats(gaps)
		if worst := gaps[len(gaps)-1]; worst > gapTolerance {
			clauses = append(clauses, fmt.Sprintf("%s is up to %s%% above the bound (median %s%%)", name, gapText(worst),
				gapText(gaps[len(gaps)/2])))
		} else {
			clauses = append(clauses, fmt.Sprintf("%s meets the bound in all of %s", name, format.Count(len(gaps), "task")))
		}
	}
	return strings.Join(clauses, "; ")
}

// gapText formats a gap in percent, with enough digits that a nonzero gap does not appear as 0.
func gapText(gap float64) string {
	if gap < 0.01 {
		return strconv.FormatFloat(100*gap, 'g', 2, 64)
	}
	return percent(gap, 1)
}

// caption returns a sentence with the numbers of networks, graphs, strategies, conditions and accepted proofs.
func (d *Document) caption() string {
	if len(d.Results) == 0 {
		return fmt.Sprintf("%s: no results of %s", d.Study, format.Count(len(d.Missing), "task"))
	}
	graphs, models := map[string]bool{}, map[string]bool{} // sets of names
	certified, optimal := 0, 0
	for _, r := range d.Results {
		graphs[r.Task.graph()], models[r.Task.Model] = true, true
		if r.Certified {
			certified++
		}
		if r.Certified && r.Optimal {
			optimal++
		}
	}
	text := fmt.Sprintf("%s: %s (%s with sizes), %s, %s; the checker accepted the proofs of %d bounds, %d of them as "+
		"optimal", d.Study, format.Count(len(models), "network"), format.Count(len(graphs), "graph"),
		format.CountIrregular(len(d.Strategies), "strategy", "strategies"), format.Count(len(d.Conditions), "condition"),
		certified, optimal)
	if n := len(d.Missing); n > 0 {
		text += fmt.Sprintf("; %s without a result", format.Count(n, "task"))
	}
	return text
}

// summaryGroups returns the summaries of each group of results: one for each strategy, in the order of the strategies.
// Adjacent groups with the same condition differ in the number of threads. The plans of such groups, and thus their
// gaps, are the same.
func (d *Document) summaryGroups() (groups [][]Summary) {
	for first := 0; first < len(d.Summaries); first += len(d.Strategies) {
		groups = append(groups, d.Summaries[first:first+len(d.Strategies)])
	}
	return groups
}

// gapTable has a row for each strategy, with the gaps under the first condition.
func (d *Document) gapTable() *term.Table {
	number := term.NumberCol
	t := term.NewTable(term.UntruncatedCol("strategy"), number("graphs"), number("geometric mean %"), number("median %"),
		number("worst %"), term.NameCol("worst on"), number("optimal on"))
	groups := d.summaryGroups()
	isFirstCondition := func(group []Summary) bool { return group[0].Condition == d.Conditions[0] }
	if i := slices.IndexFunc(groups, isFirstCondition); i >= 0 {
		for _, s := range groups[i] {
			t.Add(s.Strategy, s.Graphs, percent(s.MeanGap, 2), percent(s.MedianGap, 2), percent(s.WorstGap, 1),
				cmp.Or(s.WorstOn, "-"), s.OptimalOn)
		}
	}
	return t
}

// slowdownTable has a row for each strategy with its slowdowns under the first measured condition, for each number of
// threads. A slowdown is the median time divided by the median time of the graph's fastest plan, minus 1. The table has
// no row if nothing was measured.
func (d *Document) slowdownTable() (title string, t *term.Table) {
	number := term.NumberCol
	t = term.NewTable(term.UntruncatedCol("strategy"), number("cost, mean %"))
	if len(d.Orders) == 0 {
		return "", t
	}
	condition := d.Orders[0].Condition
	rows := make([][]any, len(d.Strategies))
	for _, group := range d.summaryGroups() {
		if group[0].Condition != condition || group[0].Threads == 0 {
			continue
		}
		for i, s := range group {
			if len(rows[i]) == 0 {
				rows[i] = []any{s.Strategy, percent(s.MeanGap, 1)}
			}
			if s.MeanRatio == nil {
				rows[i] = append(rows[i], "-", "-", "-", 0)
				continue
			}
			rows[i] = append(rows[i], percent(*s.MeanRatio-1, 1), percent(*s.WorstRatio-1, 1), cmp.Or(s.SlowestOn, "-"),
				s.FastestOn)
		}
	}
	for _, o := range d.Orders {
		if o.Condition == condition {
			threads := format.Count(o.Threads, "thread") + ", "
			t.Columns = append(t.Columns, number(threads+"mean %"), number(threads+"worst %"),
				term.NameCol(threads+"worst on"), number(threads+"fastest on"))
		}
	}
	for _, row := range rows {
		t.Add(row...)
	}
	return "Times relative to the fastest plan: " + condition, t
}

// gapTableByCondition has a row for each condition and a column for each strategy.
func (d *Document) gapTableByCondition(cell func(*Summary) string) *term.Table {
	t := term.NewTable(term.NameCol("condition"))
	for _, name := range d.Strategies {
		t.Columns = append(t.Columns, term.NumberCol(name))
	}
	groups := d.summaryGroups()
	for k, group := range groups {
		condition := group[0].Condition
		if k > 0 && groups[k-1][0].Condition == condition {
			continue
		}
		cells := []any{condition}
		for i := range group {
			cells = append(cells, cell(&group[i]))
		}
		t.Add(cells...)
	}
	return t
}

// graphTable has a row for each graph of a group of results.
func graphTable(strategies []string, results []*Result) *term.Table {
	t := term.NewTable(term.NameCol("network"), term.NumberCol("steps"), term.NumberCol("least, us"),
		term.UntruncatedCol("proved"))
	for _, name := range strategies {
		t.Columns = append(t.Columns, term.NumberCol(name+" %"))
	}
	t.Columns = append(t.Columns, term.NumberCol("copies"), term.NumberCol("certificate KiB"))
	for _, result := range results {
		best, proved := result.best(), "yes"
		switch {
		case !result.Certified:
			proved = "NO"
		case !result.Optimal:
			proved = fmt.Sprintf("gap %s%%", percent(best.Gap, 2))
		}
		cells := []any{result.Task.graph(), best.Steps, fmt.Sprintf("%.0f", best.CostNS/1e3), proved}
		for _, p := range result.Plans[:len(strategies)] {
			cells = append(cells, percent(p.Gap, 1))
		}
		t.Add(append(cells, best.Copies, (result.ProofSize+512)/1024)...) // in KiB, rounded
	}
	return t
}

// timeTable has the median times of the graphs of a group, in milliseconds.
func timeTable(results []*Result) *term.Table {
	return planTable(results, func(_ *Result, p *Plan) string {
		if p.Median == nil {
			return "-"
		}
		return fmt.Sprintf("%.3f", *p.Median/1e6)
	})
}

// regretTable has the regret of each plan of a group against the fastest measured plan of its graph, in percent.
func regretTable(g group, results []*Result) (title string, t *term.Table) {
	title = fmt.Sprintf("Regret against the fastest measured plan, %%: %s, %s", g.condition,
		format.Count(g.threads, "thread"))
	return title, planTable(results, func(result *Result, p *Plan) string {
		if regret := result.regretOf(p); regret != nil {
			return percent(*regret, 1)
		}
		return "-"
	})
}

// planTable has a row for each result and a column for each plan.
func planTable(results []*Result, cell func(*Result, *Plan) string) *term.Table {
	t := term.NewTable(term.NameCol("network"))
	for _, plan := range results[0].Plans {
		t.Columns = append(t.Columns, term.NumberCol(plan.Strategy))
	}
	for _, result := range results {
		cells := []any{result.Task.graph()}
		for i := range result.Plans {
			cells = append(cells, cell(result, &result.Plans[i]))
		}
		t.Add(cells...)
	}
	return t
}

// percent formats a ratio in percent. A number that rounds to 0 has no minus sign.
func percent(fraction float64, digits int) string {
	text := strconv.FormatFloat(100*fraction, 'f', digits, 64)
	if strings.Trim(text, "-0.") == "" {
		return strings.TrimPrefix(text, "-")
	}
	return text
}

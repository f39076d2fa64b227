package compare

import (
	"bufio"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/report"
)

// Document is the output of compare.
type Document struct {
	Interrupted bool     `json:"interrupted" doc:"Whether the measurement was interrupted."`
	Equal       bool     `json:"equal" doc:"Whether no output differs between strategies."`
	Differences []string `json:"differences" doc:"The outputs that differ, in words."`
	Strategies  []Row    `json:"strategies" doc:"A row for each strategy and combination of file, sizes and threads; ratios are relative to the first row of the combination."`
	// Verdict repeats the only element of Verdicts.
	Verdict  *experiment.Ranking `json:"verdict" doc:"The only element of verdicts; null if verdicts does not have one element."`
	Verdicts []Verdict           `json:"verdicts" doc:"The verdict for each combination of file, sizes and threads."`
	report.Notes
}

// Verdict ranks the strategies of a combination by measured time.
type Verdict struct {
	Combination
	experiment.Ranking
}

// Combination is a combination of file, sizes and threads for which the strategies are measured.
type Combination struct {
	File    string         `json:"file" doc:"The file of the graph."`
	Dims    map[string]int `json:"dims" doc:"The sizes of the graph's symbols."`
	Threads int            `json:"threads" doc:"The number of workers of a run."`
}

// Row has the measurement of a strategy for a combination.
type Row struct {
	Combination
	experiment.Measurement
	Variant     string `json:"variant,omitzero" doc:"The settings of the variant of --variant that has this name; left out for a strategy."`
	OtherPrices bool   `json:"at_other_prices,omitzero" doc:"Whether cost_ns is at the prices of the variant, because its plan does not exist at the prices of the other plans; left out if not."`
}

// doc returns the measurements as a document.
func (c *comparison) doc() *Document {
	d := &Document{Interrupted: c.Interrupted, Equal: len(c.Differences) == 0, Differences: program.NotNil(c.Differences),
		Strategies: c.rows, Verdicts: program.NotNil(c.Verdicts), Notes: c.notes}
	if len(c.Verdicts) == 1 {
		d.Verdict = &c.Verdicts[0].Ranking
	}
	return d
}

// Label returns the combination as text without blanks, such as model.onnx/N=8/threads=1. It is part of the names of
// benchmarks.
func (c *Combination) Label() string {
	parts := []string{c.File}
	for _, name := range sorted.Keys(c.Dims) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, c.Dims[name]))
	}
	return strings.Join(append(parts, "threads="+strconv.Itoa(c.Threads)), "/")
}

// symbols lists the symbols of all rows.
func (c *comparison) symbols() []string {
	names := map[string]bool{}
	for _, r := range c.rows {
		for name := range r.Dims {
			names[name] = true
		}
	}
	return sorted.Keys(names)
}

// varies reports whether text(row) differs between rows.
func (c *comparison) varies(text func(*Row) string) bool {
	return slices.ContainsFunc(c.rows, func(r Row) bool { return text(&r) != text(&c.rows[0]) })
}

// dimText returns the size of a symbol, or "-" if the graph has no such symbol.
func (r *Row) dimText(name string) string {
	if n, ok := r.Dims[name]; ok {
		return strconv.Itoa(n)
	}
	return "-"
}

// table has columns for the combination, and then the columns of [experiment.TableOf].
func (c *comparison) table() *term.Table {
	var t term.Table
	addColumn := func(column term.Column, cell func(*Row) string) {
		cells := make([]string, len(c.rows))
		for i := range c.rows {
			cells[i] = cell(&c.rows[i])
		}
		t.AddColumn(column, cells)
	}
	if file := func(row *Row) string { return row.File }; c.varies(file) {
		addColumn(term.NameCol("file"), file)
	}
	for _, name := range c.symbols() {
		addColumn(term.NumberCol(name), func(row *Row) string { return row.dimText(name) })
	}
	addColumn(term.NumberCol("threads"), func(row *Row) string { return strconv.Itoa(row.Threads) })
	rows := make([]experiment.Measurement, len(c.rows))
	for i, row := range c.rows {
		rows[i] = row.Measurement
	}
	measured := experiment.TableOf(rows)
	for column, head := range measured.Heads {
		cells := make([]string, len(rows))
		for i, row := range measured.Rows {
			cells[i] = row[column]
		}
		t.AddColumn(term.Column{Head: head, Right: measured.Right[column]}, cells)
	}
	return &t
}

// haveEqualValues reports whether strategies ran, and gave equal values.
func (c *comparison) haveEqualValues() bool {
	ran := func(row Row) bool { return row.Runs > 0 }
	return len(c.Differences) == 0 && !c.Unchecked && slices.ContainsFunc(c.rows, ran)
}

// caption returns the sentence below the table. It states the number of runs, and the meaning of the signs in the
// columns.
func (c *comparison) caption() string {
	least, most := c.flags.runs, 0 // the least and the greatest number of runs in a row
	for i, row := range c.rows {
		most = max(most, row.Runs)
		if i == 0 || row.Runs < least {
			least = row.Runs
		}
	}
	text := c.runsText(least, most)
	if c.flags.turnRuns > 1 {
		text += fmt.Sprintf(", turns of %s after an unmeasured one", format.Count(min(c.flags.turnRuns-1, most), "run"))
	}
	text += ", in rounds of random order; ±: 95% confidence interval of the median; ~: no significant difference " +
		"(Mann-Whitney U test of turns with Holm's correction, p < 0.01)"
	if slices.ContainsFunc(c.rows, func(row Row) bool { return row.MeasuredAs != "" }) {
		text += "; =: equal plans, measured once"
	}
	for _, v := range c.flags.variants {
		text += fmt.Sprintf("; %s: %s", v.name, v)
		if c.otherPrices[v.name] {
			text += " (its cost is at its own prices)"
		}
	}
	return text
}

// runsText states the number of runs. least and most are the least and the greatest number in a row.
func (c *comparison) runsText(least, most int) string {
	intended := format.Count(c.flags.runs, "run") + " each"
	switch {
	case c.Interrupted && c.flags.runs == 0:
		return fmt.Sprintf("interrupted after %s each", format.Count(least, "run"))
	case c.Interrupted && least < c.flags.runs:
		return fmt.Sprintf("interrupted after %d of %s", least, intended)
	case c.Interrupted:
		return intended + ", incomplete"
	case least < most:
		return fmt.Sprintf("%d to %d runs each", least, most)
	case c.flags.untilShare > 0:
		return format.Count(most, "run") + " each"
	}
	return intended
}

// verdictTexts returns the verdict of each combination as a sentence.
func (c *comparison) verdictTexts() (list []string) {
	for _, v := range c.Verdicts {
		text := v.Text
		if len(c.Verdicts) > 1 {
			text = v.Label() + ": " + text
		}
		list = append(list, text)
	}
	return list
}

// headlines returns the first two clauses of each verdict: the fastest strategies, and then the next strategy or the
// number of runs that are needed. With --csv, a sentence about the file follows.
func (c *comparison) headlines() []string {
	list := c.verdictTexts()
	for i, text := range list {
		const clauses = 2
		parts := strings.SplitN(text, "; ", clauses+1)
		list[i] = strings.Join(parts[:min(len(parts), clauses)], "; ")
	}
	if c.flags.csv != "" && len(c.rows) > 0 {
		runs := 0
		for _, r := range c.rows {
			runs += len(r.Samples)
		}
		list = append(list, fmt.Sprintf("%s has %s", c.flags.csv, format.Count(runs, "measured run")))
	}
	return list
}

// writeTable prints the text output: headlines, table, caption, differences of values, and verdicts.
func (c *comparison) writeTable(w io.Writer, display term.Display) {
	headlines := c.headlines()
	if len(headlines) > 0 {
		display.WriteSentences(w, headlines...)
	}
	t := c.table()
	if c.flags.markdown {
		t.WriteMarkdown(w)
		fmt.Fprintln(w)
	} else {
		t.Write(w, display)
	}
	fmt.Fprintln(w, format.Wrap(c.caption(), display.ProseWidth()))
	if c.haveEqualValues() {
		fmt.Fprintln(w, "all strategies give equal values")
	}
	for _, d := range c.Differences {
		fmt.Fprintln(w, "DIFFERENT: "+format.Printable(d))
	}
	for _, text := range c.verdictTexts() {
		if !slices.Contains(headlines, text) { // a verdict of at most two clauses is a headline
			fmt.Fprintf(w, "\n%s\n", format.Wrap(text, display.ProseWidth()))
		}
	}
}

// writeBenchmarks writes every run as an output line of a Go benchmark, for benchstat -col /strategy.
func (c *comparison) writeBenchmarks(w io.Writer) error {
	buffer := bufio.NewWriter(w)
	fmt.Fprintf(buffer, "goos: %s\ngoarch: %s\npkg: github.com/graphrun/graphrun\n", runtime.GOOS, runtime.GOARCH)
	word := func(text string) string { return strings.Join(strings.Fields(text), "_") } // without blanks
	for _, r := range c.rows {
		combination := r.Combination
		combination.File = strings.ReplaceAll(r.File, "/", "_") // benchstat splits names at slashes
		for _, ns := range r.Samples {
			fmt.Fprintf(buffer, "BenchmarkRun/file=%s/strategy=%s 1 %.0f ns/op\n", word(combination.Label()), word(r.Name), ns)
		}
	}
	return buffer.Flush()
}

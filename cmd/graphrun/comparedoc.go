package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun"
)

// compareReport is what compare prints.
type compareReport struct {
	Interrupted bool         `json:"interrupted" doc:"Whether the measurement was ended before its time."`
	Equal       bool         `json:"equal" doc:"Whether no output differs between strategies."`
	Differences []string     `json:"differences" doc:"The outputs that differ, in words."`
	Strategies  []compareRow `json:"strategies" doc:"The strategies on each file, with each sizes and threads; the first is the base."`
	graphrun.Notes
}

// compareRow is a strategy that was measured.
type compareRow struct {
	File    string         `json:"file" doc:"The file of the graph."`
	Dims    map[string]int `json:"dims" doc:"The sizes of its symbols."`
	Threads int            `json:"threads" doc:"The workers of a run."`
	graphrun.Measurement
}

func (s *comparison) doc() *compareReport {
	return &compareReport{Interrupted: s.Interrupted, Equal: len(s.Different) == 0, Differences: filled(s.Different),
		Strategies: s.rows, Notes: s.notes}
}

// place names what a row was measured on: file, sizes and threads.
func (r *compareRow) place() string {
	parts := []string{r.File}
	for _, name := range slices.Sorted(maps.Keys(r.Dims)) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, r.Dims[name]))
	}
	return strings.Join(append(parts, "threads="+strconv.Itoa(r.Threads)), "/")
}

// symbols lists the symbols of all rows.
func (s *comparison) symbols() []string {
	names := map[string]bool{}
	for _, r := range s.rows {
		for name := range r.Dims {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// varies reports whether a text is not the same in all rows.
func (s *comparison) varies(of func(*compareRow) string) bool {
	return slices.ContainsFunc(s.rows, func(r compareRow) bool { return of(&r) != of(&s.rows[0]) })
}

// dimText is the size of a symbol in a row; empty where the graph has none of the name.
func (r *compareRow) dimText(name string) string {
	if n, ok := r.Dims[name]; ok {
		return strconv.Itoa(n)
	}
	return "-"
}

// table lays the rows out. Columns that are the same in all rows are left out, and so are those that nobody knows.
func (s *comparison) table() *table {
	var t table
	texts := func(c column, of func(*compareRow) string) {
		cells := make([]string, len(s.rows))
		for i := range s.rows {
			cells[i] = of(&s.rows[i])
		}
		t.addColumn(c, cells)
	}
	numbers := func(head string, u units, of func(*compareRow) *float64) {
		values := make([]*float64, len(s.rows))
		for i := range s.rows {
			values[i] = of(&s.rows[i])
		}
		unit, cells := u.cells(values)
		t.addColumn(numberCol(head+unit), cells)
	}
	file := func(r *compareRow) string { return r.File }
	if s.varies(file) {
		texts(nameCol("file"), file)
	}
	for _, name := range s.symbols() {
		if of := func(r *compareRow) string { return r.dimText(name) }; s.varies(of) {
			texts(numberCol(name), of)
		}
	}
	if threads := func(r *compareRow) string { return strconv.Itoa(r.Threads) }; s.varies(threads) {
		texts(numberCol("threads"), threads)
	}
	texts(wholeCol("strategy"), func(r *compareRow) string { return r.Name })
	numbers("cost", timeUnits, func(r *compareRow) *float64 { return &r.CostNS })
	if slices.ContainsFunc(s.rows, func(r compareRow) bool { return r.Gap != nil }) {
		texts(numberCol("gap"), func(r *compareRow) string { return gapText(r.Gap) })
	}
	numbers("median", timeUnits, func(r *compareRow) *float64 { return r.Median })
	texts(numberCol("±"), func(r *compareRow) string { return reach(r.Spread) })
	texts(numberCol("vs "+s.rows[0].Name), versusText)
	texts(numberCol("p"), func(r *compareRow) string {
		switch {
		case r.Base == "" || r.P == nil:
			return "-"
		case *r.P < 0.001:
			return "<0.001"
		}
		return fmt.Sprintf("%.3f", *r.P)
	})
	texts(numberCol("copies"), func(r *compareRow) string { return strconv.Itoa(r.Copies) })
	numbers("copied", byteUnits, func(r *compareRow) *float64 { return new(float64(r.CopiedBytes)) })
	numbers("moved", byteUnits, func(r *compareRow) *float64 { return new(float64(r.MovedBytes)) })
	numbers("peak", byteUnits, func(r *compareRow) *float64 { return new(float64(r.PeakBytes)) })
	numbers("+weights", byteUnits, func(r *compareRow) *float64 { return new(float64(r.PeakWithWeights)) })
	numbers("plan", timeUnits, func(r *compareRow) *float64 { return new(r.PlanMS * 1e6) })
	return &t
}

// reach is how far the confidence interval of the median reaches, in parts of it, as benchstat prints it.
func reach(s graphrun.Spread) string {
	switch {
	case s.Median == nil || *s.Median == 0:
		return "-"
	case s.Low == nil:
		return "∞"
	}
	return fmt.Sprintf("%.0f%%", 100*max(*s.High-*s.Median, *s.Median-*s.Low) / *s.Median)
}

// versusText is the difference from the base where it is significant.
func versusText(r *compareRow) string {
	switch {
	case r.Base == "" || r.P == nil || r.Ratio == nil:
		return "-"
	case !r.Significant:
		return "~"
	}
	return fmt.Sprintf("%+.1f%%", 100*(*r.Ratio-1))
}

// gapText is by how much the bound is exceeded, in percent; a dash where nobody knows.
func gapText(gap *float64) string {
	if gap == nil {
		return "-"
	}
	return percent(*gap)
}

// runs is the least number of runs that a row has.
func (s *comparison) runs() int {
	n := s.flags.runs
	for _, r := range s.rows {
		n = min(n, r.Runs)
	}
	return n
}

// caption says how it was measured, and what columns hold.
func (s *comparison) caption() string {
	text := count(s.flags.runs, "run") + " each"
	if s.Interrupted {
		text = fmt.Sprintf("interrupted after %d of %s", s.runs(), text)
	}
	if len(s.rows) > 0 && !s.varies(func(r *compareRow) string { return strconv.Itoa(r.Threads) }) {
		text += ", " + count(s.rows[0].Threads, "thread")
	}
	return text + ", in rounds of random order; ±: 95% confidence interval of the median; ~: no significant difference " +
		"(Mann-Whitney U test, p < 0.05)"
}

func (s *comparison) writeTable(w io.Writer, show display) {
	t := s.table()
	if s.flags.markdown {
		t.writeMarkdown(w)
		fmt.Fprintln(w)
	} else {
		t.write(w, show)
	}
	fmt.Fprintln(w, wrapped(s.caption(), show.proseWidth()))
	if len(s.Different) == 0 && !s.Unchecked {
		fmt.Fprintln(w, "all strategies give equal values")
	}
	for _, d := range s.Different {
		fmt.Fprintln(w, "DIFFERENT: "+d)
	}
}

// writeBenchmarks writes every run as a line of a Go benchmark, for benchstat -col /strategy.
func (s *comparison) writeBenchmarks(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "goos: %s\ngoarch: %s\npkg: github.com/graphrun/graphrun\n", runtime.GOOS, runtime.GOARCH)
	word := func(s string) string { return strings.Join(strings.Fields(s), "_") }
	for _, r := range s.rows {
		for _, ns := range r.Samples {
			fmt.Fprintf(b, "BenchmarkRun/file=%s/strategy=%s 1 %.0f ns/op\n", word(r.place()), word(r.Name), ns)
		}
	}
	return b.Flush()
}

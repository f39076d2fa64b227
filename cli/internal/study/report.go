package study

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/page"
	"github.com/graphrun/graphrun/cli/internal/term"
)

// writeHTML writes the tables and charts of a study as an HTML page. path is the study file.
func (d *Document) writeHTML(w io.Writer, commandLine, path string) error {
	about, err := page.About(commandLine, []string{path}, nil) // nil: each condition has its own cost profile
	if err != nil {
		return err
	}
	html := page.Page{Title: "Study " + d.Study, Summary: []string{d.caption() + "."}, About: about}
	if text := d.summary(); text != "" {
		html.Summary = slices.Insert(html.Summary, 0, text+".")
	}
	if d.Interrupted {
		html.Warnings = append(html.Warnings, "the study was interrupted")
	}
	if n := len(d.Missing); n > 0 {
		html.Warnings = append(html.Warnings, format.Count(n, "task")+" without a result")
	}
	for _, f := range d.Failures {
		html.Warnings = append(html.Warnings, f.Task+": "+f.Message)
	}
	html.Warnings = append(html.Warnings, d.noises()...)
	order, byGroup := d.groups()
	lastCondition := ""
	for _, g := range order {
		if g.condition != lastCondition { // plans do not depend on the number of threads
			lastCondition = g.condition
			html.Sections = append(html.Sections, gapSection(g.condition, d.Strategies, byGroup[g]))
		}
		if g.threads > 0 {
			html.Sections = append(html.Sections, costTimeSection(g, byGroup[g]))
		}
	}
	html.Sections = append(html.Sections, d.tableSections(order, byGroup)...)
	return html.Write(w)
}

// gapSection shows the mean and the range of the gaps of each strategy under a condition.
func gapSection(condition string, strategies []string, list []*Result) page.Section {
	percentText := func(v float64) string { return percent(v, 1) + "%" }
	chart := &page.Intervals{Axis: page.Axis{Title: "gap to the certified bound", Format: percentText},
		Reference: page.Missing()}
	for i, name := range strategies {
		gaps := make([]float64, 0, len(list))
		logSum := 0.0
		for _, r := range list {
			gaps = append(gaps, r.Plans[i].Gap)
			logSum += math.Log1p(r.Plans[i].Gap)
		}
		mean := math.Expm1(logSum / float64(len(list)))
		chart.Rows = append(chart.Rows, page.Interval{Label: name, Value: mean, Low: slices.Min(gaps),
			High: slices.Max(gaps), Text: "mean " + percentText(mean)})
	}
	return page.Section{Title: "Gaps: " + condition, Chart: chart,
		Note: fmt.Sprintf("The geometric mean over %s, and the range from the least to the greatest gap.",
			format.Count(len(list), "graph"))}
}

// costTimeSection shows the cost and the measured time of each plan. The cost is relative to the lower bound, the time
// relative to the fastest plan of the graph.
func costTimeSection(g group, list []*Result) page.Section {
	ratioText := func(v float64) string { return fmt.Sprintf("%.3gx", v) }
	chart := &page.Scatter{X: page.Axis{Title: "cost / lower bound", Format: ratioText, Log: true},
		Y: page.Axis{Title: "median time / median time of the fastest plan", Format: ratioText, Log: true}}
	maxCostRatio := 1.0
	for _, r := range list {
		fastest := r.fastest()
		for _, p := range r.Plans {
			if p.Median == nil || fastest == 0 {
				continue
			}
			costRatio, timeRatio := 1+p.Gap, *p.Median/fastest
			maxCostRatio = max(maxCostRatio, costRatio)
			chart.Points = append(chart.Points, page.Point{X: costRatio, Y: timeRatio,
				Label: fmt.Sprintf("%s, %s: cost %s, time %s", r.Task.graph(), p.Strategy, ratioText(costRatio),
					ratioText(timeRatio))})
		}
	}
	chart.Lines = []page.Line{{Label: "equal", Points: [][2]float64{{1, 1}, {maxCostRatio, maxCostRatio}}}}
	return page.Section{Title: fmt.Sprintf("Cost and time: %s, %s", g.condition, format.Count(g.threads, "thread")),
		Chart: chart,
		Note:  "Each point is the plan of a strategy for a graph, relative to the bound and to the fastest plan."}
}

// tableSections returns the tables of the text output except the median gaps by condition. The first section also has
// all results as CSV data. order and byGroup are the results of groups.
func (d *Document) tableSections(order []group, byGroup map[group][]*Result) (list []page.Section) {
	add := func(title string, t *term.Table) {
		if len(t.Rows) > 0 {
			list = append(list, page.Section{Title: title, Table: page.TableOf(fmt.Sprintf("table%d", len(list)+1), t)})
		}
	}
	add("Gaps to the certified bound: "+d.firstCondition(), d.gapTable())
	add(d.slowdownTable())
	if len(d.Conditions) > 1 {
		add("Geometric mean of the gap, %", d.gapTableByCondition(func(s *Summary) string { return percent(s.MeanGap, 2) }))
		add("Greatest gap, %", d.gapTableByCondition(func(s *Summary) string { return percent(s.WorstGap, 1) }))
	}
	for i, g := range order {
		if i == 0 {
			add("Graphs: "+d.firstCondition(), graphTable(d.Strategies, byGroup[g]))
		}
		if g.threads > 0 {
			add(fmt.Sprintf("Median times, ms: %s, %s", g.condition, format.Count(g.threads, "thread")),
				timeTable(byGroup[g]))
			add(regretTable(g, byGroup[g]))
		}
	}
	d.tunedTables(add)
	if records := d.records(); len(list) > 0 {
		list[0].Data = &page.Table{Name: "results", Heads: records[0], Rows: records[1:]}
	}
	return list
}

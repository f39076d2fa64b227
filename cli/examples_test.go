package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/graphrun/graphrun"
)

const models = "../examples/models"

// TestExamples takes every example all the way under all strategies.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob(models + "/*.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			succeed(t, "infer", file)
			succeed(t, "run", file)
			for _, s := range graphrun.Strategies() {
				succeed(t, "plan", file, "--check", "--strategy", s.Name())
			}
			doc := decode[compareDoc](t, succeed(t, "compare", file, "--strategies", "all", "--runs", "1", "--json"))
			if !doc.Equal || len(doc.Strategies) != len(graphrun.Strategies()) {
				t.Errorf("%+v", doc)
			}
		})
	}
}

// TestStrideRules holds examples/models/stride_rules.json to PyTorch's answers.
func TestStrideRules(t *testing.T) {
	ct, cl := []int{60, 15, 5, 1}, []int{60, 1, 20, 4}
	want := map[string][]int{
		"pixel_ct_gives_ct": ct, "pixel_cl_gives_cl": cl, "ct_pixel_gives_ct": ct, "cl_pixel_gives_cl": cl,
		"plane_ct_gives_ct": ct, "plane_cl_gives_cl": cl, "ct_plane_gives_ct": ct, "cl_plane_gives_cl": cl,
		"ct_cl_gives_ct": ct, "cl_ct_gives_cl": cl,
		"one_cl_ct_gives_contiguous": {16, 16, 4, 1}, "one_ct_cl_gives_contiguous": {16, 16, 4, 1},
		"one_cl_image_gives_channels_last": {16, 1, 4, 1},
		"batch_frame":                      {60, 1, 15, 3}, "stats_bias": {3, 1, 3, 3}, "stats_line": {9, 1, 3, 3},
	}
	doc := decode[inferDoc](t, succeed(t, "infer", "--json", models+"/stride_rules.json"))
	for _, v := range doc.Values {
		if v.Op == "input" {
			continue
		}
		if !slices.Equal(v.Strides, want[v.Name]) {
			t.Errorf("%s: strides %v, want %v", v.Name, v.Strides, want[v.Name])
		}
		delete(want, v.Name)
	}
	if len(want) > 0 {
		t.Errorf("no nodes for %v", want)
	}
}

// TestResidual checks what README.md promises of the plan.
func TestResidual(t *testing.T) {
	doc := decode[planJSON](t, succeed(t, "plan", "--json", models+"/residual.json", "--strategy", "propagate"))
	if len(doc.Copies) == 0 || len(doc.Elided) == 0 {
		t.Fatalf("copies %v, elided %v", doc.Copies, doc.Elided)
	}
	for _, c := range doc.Copies {
		if c.Why == "" || slices.Equal(c.From, c.To) {
			t.Errorf("copy %+v", c)
		}
	}
	for _, e := range doc.Elided {
		if e.Why == "" {
			t.Errorf("elided %+v", e)
		}
	}
}

// estimates are the costs in a plan, their column, what they differ by, and bytes of what is packed: they are those of
// an instruction set.
var estimates = regexp.MustCompile(`(?m)(?: +(?:cost|bytes|[0-9.]+[nµm]?s[,;]?|[0-9.]+%[,;]?|[0-9.]+ [KM]iB[;,]?))+(?: +|$)`)

// TestREADME holds the plans that README.md and docs/commands.md show to the plans that are made.
func TestREADME(t *testing.T) {
	page := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return estimates.ReplaceAllString(string(text), " COST ")
	}
	front := page("../README.md")
	shown := 0
	for _, flags := range [][]string{{"--strategy", "propagate"}, {"--strategies", "all"}} {
		printed := estimates.ReplaceAllString(succeed(t, append([]string{"plan", models + "/residual.json"}, flags...)...),
			" COST ")
		for _, line := range strings.Split(printed, "\n") {
			if line != "" && strings.Contains(front, "    "+line+"\n") {
				shown++
			}
		}
	}
	if shown < 7 {
		t.Errorf("README.md shows %d lines of plans, want 7: three of a copy and four of strategies", shown)
	}
	readme := page("../docs/commands.md")
	_, plan, _ := strings.Cut(succeed(t, "plan", models+"/residual.json", "--strategy", "propagate"), "\n\n")
	_, plan, _ = strings.Cut(plan, "\n\n")            // the number of steps and the profile of the machine
	plan, steps, _ := strings.Cut(plan, "\n\nPasses") // the page leaves passes, memory and steps out
	_, after, _ := strings.Cut(steps, "\n\nElided")
	plan += "\n\nElided" + after
	for _, line := range strings.Split(estimates.ReplaceAllString(plan, " COST "), "\n") {
		if line != "" && !strings.Contains(readme, "    "+line+"\n") {
			t.Errorf("docs/commands.md lacks the line %q", line)
		}
	}
	for _, c := range newRoot(extend(t)).Commands() {
		if c.Name() != "completion" && c.Name() != "help" && !strings.Contains(readme, "`graphrun "+c.Name()) {
			t.Errorf("docs/commands.md lacks the command %s", c.Name())
		}
	}
}

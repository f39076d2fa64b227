package cli

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPeersGraphs holds the graphs that bench/peers measures to what it measures of them: the result has a step of its
// own, and nothing is copied beside it.
func TestPeersGraphs(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	folder := t.TempDir()
	write := exec.Command(python, "-B", "../bench/peers/run.py", "--graphs", folder)
	if out, err := write.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	files, err := filepath.Glob(folder + "/*.json")
	if err != nil || len(files) < 25 {
		t.Fatalf("%d graphs, %v", len(files), err)
	}
	for _, file := range files {
		var doc struct {
			Copies []any
			Steps  []struct{ Ops []string }
		}
		if err := json.Unmarshal([]byte(succeed(t, "plan", file, "--json", "--strategy", "propagate")), &doc); err != nil {
			t.Fatal(err)
		}
		made := map[string]bool{}
		for _, s := range doc.Steps {
			for _, name := range s.Ops {
				made[name] = true
			}
		}
		if !made["y"] && !made["s999"] || len(doc.Copies) > 0 {
			t.Errorf("%s: %d steps make the result: %v, %d copies", file, len(doc.Steps), made["y"], len(doc.Copies))
		}
	}
}

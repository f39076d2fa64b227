package cli

import (
	"html"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// passesOf returns the page of plan --passes.
func passesOf(t *testing.T, path string, args ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "passes.html")
	succeed(t, append([]string{"plan", path, "--passes", out}, args...)...)
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	return string(text)
}

// TestPlanPasses checks the columns of the page and their marks.
func TestPlanPasses(t *testing.T) {
	page := passesOf(t, residual, "--dim", "N=2", "--strategy", "channels_last")
	plan := decode[planJSON](t, succeed(t, "plan", residual, "--dim", "N=2", "--strategy", "channels_last", "--json"))
	columns := strings.Split(page, "<section")[1:]
	require.Len(t, columns, len(plan.Passes))
	folded := 0
	for i, p := range plan.Passes {
		assert.Contains(t, columns[i], ">"+p.Pass)
		if strings.HasPrefix(columns[i], ` class="same"`) {
			folded++
			assert.NotContains(t, columns[i], "<li")
		}
	}
	assert.Positive(t, folded)
	rows := func(class string) (list []string) {
		for _, line := range strings.Split(page, "<li class=\""+class)[1:] {
			line, _, _ = strings.Cut(line, "</li>")
			_, line, _ = strings.Cut(line, `">`)
			list = append(list, html.UnescapeString(strings.NewReplacer(`</b>`, "").Replace(line)))
		}
		return list
	}
	assert.Contains(t, strings.Join(rows("added"), "\n"), "act2.contiguous")
	assert.Contains(t, strings.Join(rows("removed"), "\n"), "tidy")
	assert.NotContains(t, columns[0], "class=\"added", "the first column has no marks")

	assert.Regexp(t, `<li class="constant" data-mark=""><b data-v="w1">`, columns[0], "unchanged constants can be hidden")

	scoped := write(t, "scoped.json", `{"version": 1, "inputs": [{"name": "onnx::x:0", "dtype": "float32", "shape": [2]}],
 "nodes": [{"name": "y", "op": "sin", "inputs": ["onnx::x:0"]}], "outputs": ["y"]}`)
	assert.Contains(t, passesOf(t, scoped), `sin(<b data-v="&#34;onnx::x:0&#34;">`, "a name with colons is marked as a value")

	path, names := hostile(t)
	hostilePage := passesOf(t, path)
	assert.Equal(t, 1, strings.Count(hostilePage, "<script"), names)
	assert.NotContains(t, hostilePage, "<img")
}

func TestPlanPassesInBrowser(t *testing.T) {
	page := passesOf(t, residual, "--dim", "N=2")
	driven(t, browser(t), page, `"use strict";
const failures = [], value = document.querySelector("b");
value.click();
const marked = [...document.querySelectorAll(".picked")];
if (marked.length < 3 || marked.some(b => b.textContent !== value.textContent)) failures.push("a value is not marked");
value.click();
if (document.querySelector(".picked")) failures.push("the mark stays");
const head = document.querySelector("section:not(.same) > h2");
head.click();
if (!head.parentElement.classList.contains("folded")) failures.push("a column does not fold");
if (performance.getEntriesByType("resource").length) failures.push("the page loads something");
const p = document.createElement("pre");
p.id = "result";
p.textContent = JSON.stringify(failures.concat(window.seenErrors));
document.body.append(p);`)
}

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// browser returns the path of an installed Chromium, or skips the test.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil && exec.Command(path, "--version").Run() == nil {
			return path
		}
	}
	t.Skip("chromium is not installed")
	return ""
}

// blockModel is a graph with scopes, repeated blocks and a part without structure.
func blockModel(t *testing.T) string {
	var nodes []string
	last := "x"
	node := func(name, op string, in ...string) {
		nodes = append(nodes, fmt.Sprintf(`{"name": %q, "op": %q, "inputs": ["%s"]}`, name, op, strings.Join(in, `", "`)))
		last = name
	}
	for layer := range 3 {
		for block := range 4 {
			scope, start := fmt.Sprintf("/net/layer%d/layer%d.%d/", layer, layer, block), last
			for i, op := range []string{"exp", "neg", []string{"tanh", "sigmoid", "erf"}[layer]} {
				node(fmt.Sprintf("%s%s_%d", scope, op, i), op, last)
			}
			node(scope+"sum", "add", last, start)
			if block == 0 {
				node(scope+"down/relu", "relu", last)
				node(scope+"down/sin", "sin", last)
				node(scope+"down/cos", "cos", last)
			}
		}
	}
	for i := range 90 {
		before := last
		node(fmt.Sprintf("free%d", i), []string{"sin", "cos", "abs", "relu", "neg"}[i*i%11%5], last)
		if i%7 == 0 {
			node(fmt.Sprintf("join%d", i), "mul", last, before)
		}
	}
	return write(t, "blocks.json", fmt.Sprintf(`{"version": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3]}],
 "nodes": [%s], "outputs": [%q]}`, strings.Join(nodes, ",\n"), last))
}

// TestViewInBrowser drives pages in a browser: folding, search, clicks, keys, the overview and printing. There must be
// no error, and no request.
func TestViewInBrowser(t *testing.T) {
	chromium := browser(t)
	script, err := os.ReadFile("testdata/drive_view.js")
	require.NoError(t, err)
	path := blockModel(t)
	for name, args := range map[string][]string{
		"written":    {"--as-written"},
		"horizontal": {"--as-written", "--direction", "horizontal"},
		"plans":      {"--strategies", "propagate,channels_last", "--no-fusion", "--depth", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			driven(t, chromium, viewed(t, ".html", path, args...), string(script))
		})
	}
}

// A small picture fills the window at first. One that is wider than the window begins at an edge, without an empty
// margin.
func TestViewStart(t *testing.T) {
	chromium := browser(t)
	for file, check := range map[string]string{
		"residual":     "seen.scale > 1 && seen.y < 0 && by('corner').hidden",
		"stride_rules": "seen.x > -1 && seen.x + room.width / seen.scale < all.w + 1 && !by('corner').hidden",
	} {
		script := `const list = document.createElement("pre");
list.id = "result";
if (all.w > 1500) { // a window that is nearly as wide as the picture
  room = { left: 0, top: 0, width: .5 * all.w, height: room.height };
  start();
}
paint();
list.textContent = JSON.stringify(` + check + ` ? [] : [JSON.stringify([seen, all, room])]);
document.body.append(list);`
		driven(t, chromium, viewed(t, ".html", models+"/"+file+".json"), script)
	}
}

// driven opens a page in a browser with a script at its end, which leaves a list of failures.
func driven(t *testing.T, chromium, page, script string) {
	t.Helper()
	watch := `<script>window.seenErrors = [];
for (const name of ["error", "unhandledrejection", "securitypolicyviolation"]) addEventListener(name, e =>
  window.seenErrors.push(name + ": " + (e.message || e.reason || e.blockedURI)), true);
</script>`
	page = strings.Replace(page, "<style>", watch+"<style>", 1)
	dom, console := opened(t, chromium, strings.Replace(page, "</html>", "<script>"+script+"</script></html>", 1))
	assert.Empty(t, console, "the page writes to the console")
	found := regexp.MustCompile(`<pre id="result">(.*?)</pre>`).FindStringSubmatch(dom)
	require.NotNil(t, found, "the script did not end: %s", dom[max(0, len(dom)-1000):])
	var failures []string
	require.NoError(t, json.Unmarshal([]byte(html.UnescapeString(found[1])), &failures))
	assert.Empty(t, failures)
}

// opened opens a page in a browser, and returns its elements and its messages on the console, such as errors and
// forbidden requests.
func opened(t *testing.T, chromium, page string) (dom string, console []string) {
	t.Helper()
	file := write(t, "page.html", page)
	cmd := exec.CommandContext(t.Context(), chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
		"--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--v=0",
		"--user-data-dir="+filepath.Join(t.TempDir(), "profile"), "--window-size=1280,900", "--virtual-time-budget=20000",
		"--dump-dom", "file://"+file)
	var messages bytes.Buffer
	cmd.Stderr = &messages
	out, err := cmd.Output()
	require.NoError(t, err, messages.String())
	for line := range strings.Lines(messages.String()) {
		if strings.Contains(line, "CONSOLE") {
			console = append(console, line)
		}
	}
	return string(out), console
}

// TestReportsInBrowser opens the reports of bench, compare and study and the page of plan --passes in a browser. There
// must be no error, and no request.
func TestReportsInBrowser(t *testing.T) {
	chromium := browser(t)
	sized := residual + " --dim N=2 "
	for name, c := range map[string]struct{ command, want string }{
		"bench":   {"bench " + sized + "--runs 6 --report", "<svg"},
		"compare": {"compare " + sized + "--runs 6 --report", "<svg"},
		"study": {"study " + studied(t, `{"name": "measured", "threads": [1]}, {"name": "planned"}`) + " --models " + models +
			" --report", "<svg"},
		"passes": {"plan " + sized + "--passes", "</ol>"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "out.html")
			succeed(t, append(strings.Fields(c.command), file)...)
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			dom, console := opened(t, chromium, string(text))
			assert.Empty(t, console, "the page writes to the console")
			assert.Contains(t, dom, c.want)
			assert.Contains(t, dom, `content="default-src 'none'; `)
			if name == "passes" {
				assert.Regexp(t, `<button id="more"[^>]*>\d+ more columns? →</button>`, dom, "columns out of sight are told")
				assert.NotRegexp(t, `<button id="more"[^>]* hidden`, dom)
			}
			if name == "bench" { // the policy forbids a page to load something, which it would write to the console
				loading := strings.Replace(string(text), "</html>", `<img src="http://a.example/b.png"></html>`, 1)
				_, console = opened(t, chromium, loading)
				assert.NotEmpty(t, console)
			}
		})
	}
}

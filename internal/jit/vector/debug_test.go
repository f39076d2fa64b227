package vector
import ("os";"fmt")
func (b *bench) debug(c *Loop, n, rows int) { if f := os.Getenv("DBG"); f != "" { os.WriteFile(f, []byte(fmt.Sprint(n, rows, c.loop.Scalar, c.loop.Folds, "\n", c.loop.Code, c.Listing())), 0o600) } }

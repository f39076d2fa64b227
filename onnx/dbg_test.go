package onnx
import ("testing";"os";"fmt")
func TestDbg(t *testing.T){
 if os.Getenv("DBG")=="" {t.Skip()}
 _, err := Load(os.Getenv("DBG"))
 fmt.Println(err)
}

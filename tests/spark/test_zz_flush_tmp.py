import penstock, pytest
def test_flush(spark,tmp_path):
    seen=[]; got=[]
    def f(frame,step):
        seen.append(step)
        if len(seen)==1: raise OSError("no room")
        got.extend(frame.collect())
    for i in range(2):
        s=penstock.connect(spark,checkpoint=str(tmp_path/"c"),cells=2)
        s.execute("CREATE STREAM a (ts BIGINT, x INT) WATERMARK ts DELAY OF INTERVAL 1000")
        s.query("SELECT x FROM a [RANGE 10]",name="q").foreach_batch(f)
        if i==0: s.push("a",[{"ts":1,"x":1}])
        h=s.start(trigger={"availableNow":True})
        try: h.awaitTermination()
        except Exception as e: print("ERR",e)
        h.stop()
    print(seen,got)
    assert len(got)==1

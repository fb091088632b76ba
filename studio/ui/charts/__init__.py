"""What the cache does, drawn. The only folder that imports pyqtgraph; import it when a chart is shown."""
